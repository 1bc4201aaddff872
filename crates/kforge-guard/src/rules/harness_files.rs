//! Refuses files in places that are not the candidate's.
//!
//! ## What it does
//! Looks for `open`, `pathlib` and `shutil` calls on absolute paths, on `~` and on `..` that are written in the source.
//! Facts about the machine (`/sys`, `/proc/cpuinfo`) and installed headers (`/usr`, `/opt`) may be read. Files in a
//! `tempfile` directory, beside `__file__` or in `KFORGE_BUILD_DIR` are free.
//!
//! ## Why is this bad?
//! Results, caches and other candidates live in files too. A fixed place such as `/tmp/kernel.so` is shared by every run,
//! and may not even exist in the sandbox.
//!
//! ## Example
//! ```python
//! open("/tmp/kernel.cpp", "w").write(SOURCE)
//! ```
//! Use instead:
//! ```python
//! with tempfile.TemporaryDirectory() as folder:
//!     Path(folder, "kernel.cpp").write_text(SOURCE)
//! ```

use std::cell::Cell;

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::rules::introspection::is_private_file;
use crate::scope::Value;
use crate::text;

const CHANGERS: &[&str] = &[
    "os.chmod",
    "os.link",
    "os.makedirs",
    "os.mkdir",
    "os.open",
    "os.remove",
    "os.removedirs",
    "os.rename",
    "os.replace",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "os.unlink",
    "shutil.copy",
    "shutil.copy2",
    "shutil.copyfile",
    "shutil.copytree",
    "shutil.move",
    "shutil.rmtree",
    "numpy.save",
    "numpy.savez",
    "torch.save",
];
const READERS: &[&str] = &["numpy.load", "torch.load"];
const CHANGING_METHODS: &[&str] =
    &["write_text", "write_bytes", "touch", "unlink", "mkdir", "rmdir", "symlink_to", "hardlink_to"];
const READING_METHODS: &[&str] = &["read_text", "read_bytes"];
const READABLE: &[&str] = &["/sys/", "/proc/cpuinfo", "/proc/meminfo", "/usr/", "/opt/", "/etc/os-release"];

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for call in context.of_kind("call") {
        let Some(function) = call.field("function") else { continue };
        let method = function.field("attribute").filter(|_| function.is("attribute")).map_or("", Node::text);
        let object = function.field("object");
        if context.names.calls(call, &["builtins.open"]) {
            let changes =
                call.positional().nth(1).or_else(|| call.keyword("mode")).is_some_and(|mode| is_writing(context, mode));
            let file = call.positional().next().or_else(|| call.keyword("file"));
            report(context, call, file, changes, sink);
        } else if method == "open" && context.names.paths(function).iter().all(|path| path.starts_with("pathlib.")) {
            let changes =
                call.positional().next().or_else(|| call.keyword("mode")).is_some_and(|mode| is_writing(context, mode));
            report(context, call, object, changes, sink);
        } else if CHANGING_METHODS.contains(&method) || READING_METHODS.contains(&method) {
            report(context, call, object, CHANGING_METHODS.contains(&method), sink);
        } else if context.names.calls(call, CHANGERS) || context.names.calls(call, READERS) {
            for file in call.positional() {
                report(context, call, Some(file), context.names.calls(call, CHANGERS), sink);
            }
        }
    }
}

fn is_writing(context: &Context<'_>, mode: Node<'_>) -> bool {
    context.names.constant(mode).is_none_or(|mode| mode.contains(['w', 'a', 'x', '+']))
}

fn report(context: &Context<'_>, call: Node<'_>, file: Option<Node<'_>>, changes: bool, sink: &mut Sink<'_>) {
    let Some(path) = file.and_then(|file| Places { context, fuel: Cell::new(200) }.outside(file)) else { return };
    if path == "/dev/null"
        || is_private_file(&path)
        || (!changes && READABLE.iter().any(|known| path.starts_with(known)))
    {
        return;
    }
    let shown: String = path.chars().take(60).collect();
    let verb = if changes { "Changing" } else { "Reading" };
    sink.at(
        call,
        format!("{verb} `{shown}` reaches outside the candidate; use a `tempfile` directory or `kforge_rt.build`."),
    );
}

struct Places<'e, 'a> {
    context: &'e Context<'a>,
    fuel: Cell<u32>,
}

impl Places<'_, '_> {
    /// What a path begins with, if that is written in the source and lies outside.
    fn outside(&self, node: Node<'_>) -> Option<String> {
        self.fuel.set(self.fuel.get().checked_sub(1)?);
        let node = node.unwrapped();
        if let Some(path) = text::prefix(node, &self.context.names.scopes) {
            let away = path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..");
            return away.then_some(path);
        }
        match node.kind() {
            "binary_operator" => self.outside(node.field("left")?),
            "attribute" => self.outside(node.field("object")?),
            "identifier" => self.context.names.scopes.values(node).iter().find_map(|value| match value {
                Value::Expr(expression) => self.outside(*expression),
                _ => None,
            }),
            "call" => self.outside_call(node),
            _ => None,
        }
    }

    fn outside_call(&self, call: Node<'_>) -> Option<String> {
        let names = &self.context.names;
        let function = call.field("function")?;
        let method = function.field("attribute").map_or("", Node::text);
        if names.calls(call, &["os.path.expanduser", "pathlib.Path.home"]) || method == "expanduser" {
            return Some("~".to_owned());
        }
        let same = [
            "pathlib.Path",
            "pathlib.PurePath",
            "pathlib.PosixPath",
            "os.path.join",
            "os.path.abspath",
            "os.fspath",
            "builtins.str",
        ];
        if names.calls(call, &same) {
            return self.outside(call.positional().next()?);
        }
        ["joinpath", "resolve", "absolute", "with_suffix", "with_name"]
            .contains(&method)
            .then(|| self.outside(function.field("object")?))
            .flatten()
    }
}
