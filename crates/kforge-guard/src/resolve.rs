//! Which imported things an expression may stand for.
//!
//! Every expression gets a short list of dotted paths: `t.allclose` after `import torch as t` is `torch.allclose`, the
//! result of a call ends in `()`, an element in `[]`. Values made by the candidate itself have no path.

use std::collections::BTreeMap;

use crate::ast::{Ast, Node};
use crate::scope::{Scopes, Value};
use crate::text;

/// More values for one name than this are dropped, and so are longer paths: nobody honest gets near.
const MAX_PATHS: usize = 16;
const MAX_PATH: usize = 160;
/// A path that needs longer to settle was built to confuse.
const MAX_ROUNDS: usize = 8;

const BUILTINS: &[&str] = &[
    "__import__",
    "__loader__",
    "__spec__",
    "BaseException",
    "KeyboardInterrupt",
    "SystemExit",
    "compile",
    "delattr",
    "dict",
    "eval",
    "exec",
    "exit",
    "getattr",
    "globals",
    "id",
    "locals",
    "next",
    "object",
    "open",
    "quit",
    "setattr",
    "str",
    "type",
    "vars",
];

/// Modules that others carry as attributes: `torch.os` is `os`.
const CARRIED: &[&str] = &[
    "_os",
    "_sys",
    "builtins",
    "ctypes",
    "gc",
    "importlib",
    "inspect",
    "multiprocessing",
    "os",
    "socket",
    "subprocess",
    "sys",
];

type Paths = Vec<String>;

pub(crate) struct Names<'a> {
    pub(crate) scopes: Scopes<'a>,
    paths: Vec<Paths>,
    /// By scope, then by name.
    env: Vec<BTreeMap<&'a str, Paths>>,
    returns: BTreeMap<usize, Paths>,
    /// Calls of each function of the file, by its node.
    sites: BTreeMap<usize, Vec<Node<'a>>>,
}

impl<'a> Names<'a> {
    pub(crate) fn resolve(ast: &'a Ast<'a>) -> Self {
        let scopes = Scopes::collect(ast);
        let mut env: Vec<BTreeMap<&'a str, Paths>> = vec![BTreeMap::new(); scopes.imported().len()];
        for (known, imported) in env.iter_mut().zip(scopes.imported()) {
            for (name, paths) in imported {
                for path in paths {
                    add(known.entry(name).or_default(), canonical(path));
                }
            }
        }
        let mut names =
            Self { scopes, paths: vec![Vec::new(); ast.len()], env, returns: BTreeMap::new(), sites: BTreeMap::new() };
        for call in ast.all().filter(|node| node.is("call")) {
            for function in names.callees(call).collect::<Vec<_>>() {
                names.sites.entry(function.id()).or_default().push(call);
            }
        }
        for _ in 0..MAX_ROUNDS {
            // Children come after their parents, so the way back sees them first.
            for id in (0..ast.len()).rev() {
                names.paths[id] = names.of_node(ast.node(id));
            }
            if !names.flow(ast) {
                break;
            }
        }
        names
    }

    /// What an expression may stand for.
    pub(crate) fn paths(&self, node: Node<'_>) -> &[String] {
        &self.paths[node.id()]
    }

    pub(crate) fn any(&self, node: Node<'_>, wanted: impl Fn(&str) -> bool) -> bool {
        self.paths(node).iter().any(|path| wanted(path))
    }

    pub(crate) fn is(&self, node: Node<'_>, path: &str) -> bool {
        self.any(node, |known| known == path)
    }

    /// Whether a call's function may be one of these paths.
    pub(crate) fn calls(&self, call: Node<'_>, wanted: &[&str]) -> bool {
        call.field("function").is_some_and(|function| self.any(function, |path| wanted.contains(&path)))
    }

    pub(crate) fn constant(&self, node: Node<'_>) -> Option<String> {
        text::constant(node, &self.scopes)
    }

    /// Functions of this file that a call may run.
    pub(crate) fn callees(&self, call: Node<'_>) -> impl Iterator<Item = Node<'a>> {
        let function = call.field("function").filter(|function| function.is("identifier"));
        function.into_iter().flat_map(|name| self.scopes.values(name)).filter_map(|value| match value {
            Value::Function(function) => Some(*function),
            _ => None,
        })
    }

    /// What calls pass for the parameter of a function at a position.
    pub(crate) fn arguments(&self, function: Node<'_>, i: usize) -> impl Iterator<Item = Node<'a>> {
        let sites = self.sites.get(&function.id()).into_iter().flatten();
        sites.filter_map(move |call| call.positional().nth(i))
    }

    /// Carries paths from values to names, from arguments to parameters and out of returns. True if something was new.
    fn flow(&mut self, ast: &'a Ast<'a>) -> bool {
        let mut found: Vec<((u32, &'a str), String)> = Vec::new();
        for (scope, name, values) in self.scopes.all() {
            for value in values {
                if let Value::Expr(expression) = value {
                    found.extend(self.paths(*expression).iter().map(|path| ((scope, name), path.clone())));
                }
            }
        }
        let mut returned: Vec<(usize, String)> = Vec::new();
        for node in ast.all() {
            if node.is("call") {
                self.pass_arguments(node, &mut found);
            } else if let (true, Some(value)) = (node.is("return_statement"), node.children().next()) {
                let function = node.ancestors().find(|up| up.is("function_definition"));
                let paths = self.paths(value).iter();
                returned
                    .extend(function.into_iter().flat_map(|f| paths.clone().map(move |path| (f.id(), path.clone()))));
            }
        }
        let mut news = false;
        for ((scope, name), path) in found {
            news |= add(self.env[scope as usize].entry(name).or_default(), path);
        }
        for (function, path) in returned {
            news |= add(self.returns.entry(function).or_default(), path);
        }
        news
    }

    fn pass_arguments(&self, call: Node<'a>, found: &mut Vec<((u32, &'a str), String)>) {
        if call.positional().all(|argument| self.paths(argument).is_empty()) {
            return;
        }
        for function in self.callees(call) {
            let scope = self.scopes.inside(function);
            let parameters = function.field("parameters").into_iter().flat_map(Node::children);
            for (parameter, argument) in parameters.zip(call.positional()) {
                let name = parameter.field("name").unwrap_or(parameter);
                if name.is("identifier") {
                    found.extend(self.paths(argument).iter().map(|path| ((scope, name.text()), path.clone())));
                }
            }
        }
    }

    fn of_node(&self, node: Node<'a>) -> Paths {
        match node.kind() {
            "identifier" => self.of_name(node),
            "attribute" => match (node.field("object"), node.field("attribute")) {
                (Some(object), Some(name)) => self.member(object, name.text()),
                _ => Vec::new(),
            },
            "call" => self.of_call(node),
            "subscript" => self.of_subscript(node),
            "parenthesized_expression" | "await" | "as_pattern" => self.union(node.children().take(1)),
            "named_expression" => self.union(node.field("value").into_iter()),
            "conditional_expression" | "boolean_operator" => self.union(node.children()),
            _ => Vec::new(),
        }
    }

    fn of_name(&self, node: Node<'a>) -> Paths {
        let Some(parent) = node.parent() else { return Vec::new() };
        let only_a_label = match node.role() {
            "attribute" => parent.is("attribute"),
            "name" => parent.is("keyword_argument"),
            _ => parent.is_any(&["dotted_name", "aliased_import"]),
        };
        if only_a_label {
            return Vec::new();
        }
        let name = node.text();
        if let Some(scope) = self.scopes.find(self.scopes.of(node), name) {
            return self.env[scope as usize].get(name).cloned().unwrap_or_default();
        }
        if name == "__builtins__" {
            return vec!["builtins".to_owned()];
        }
        if BUILTINS.contains(&name) {
            return vec![format!("builtins.{name}")];
        }
        self.scopes.wildcards.iter().take(MAX_PATHS).map(|module| canonical(&format!("{module}.{name}"))).collect()
    }

    fn of_call(&self, call: Node<'a>) -> Paths {
        let Some(function) = call.field("function") else { return Vec::new() };
        let mut found = Vec::new();
        let first = call.positional().next();
        for path in self.paths(function) {
            let name_at = |i: usize| call.positional().nth(i).and_then(|argument| self.constant(argument));
            let known = match (path.as_str(), first) {
                ("builtins.getattr", Some(object)) => name_at(1).map(|name| self.member(object, &name)),
                ("importlib.import_module", Some(_)) => name_at(0).map(|name| vec![canonical(&name)]),
                ("builtins.__import__" | "importlib.__import__", Some(_)) => {
                    name_at(0).map(|name| vec![canonical(name.split('.').next().unwrap_or_default())])
                }
                ("sys.modules.get", Some(_)) => name_at(0).map(|name| vec![canonical(&name)]),
                ("builtins.vars", Some(object)) => Some(self.member(object, "__dict__")),
                ("functools.partial", Some(object)) => Some(self.paths(object).to_vec()),
                (path, Some(_)) if path.ends_with(".__getattribute__") => name_at(0)
                    .map(|name| vec![canonical(&format!("{}.{name}", path.trim_end_matches(".__getattribute__")))]),
                _ => None,
            };
            for path in known.unwrap_or_else(|| vec![format!("{path}()")]) {
                add(&mut found, path);
            }
        }
        for function in self.callees(call) {
            for path in self.returns.get(&function.id()).into_iter().flatten() {
                add(&mut found, path.clone());
            }
        }
        found
    }

    fn of_subscript(&self, node: Node<'a>) -> Paths {
        let Some(value) = node.field("value") else { return Vec::new() };
        if self.paths(value).is_empty() {
            return Vec::new();
        }
        let key = node.field("subscript").and_then(|key| self.constant(key));
        let mut found = Vec::new();
        for path in self.paths(value) {
            let element = match (path.as_str(), &key) {
                ("sys.modules", Some(key)) => canonical(key),
                ("builtins", Some(key)) => format!("builtins.{key}"),
                ("builtins.globals()", Some(key)) => {
                    for known in self.env[0].get(key.as_str()).into_iter().flatten() {
                        add(&mut found, known.clone());
                    }
                    continue;
                }
                (path, Some(key)) if path.ends_with(".__dict__") => {
                    canonical(&format!("{}.{key}", path.trim_end_matches(".__dict__")))
                }
                (path, _) => format!("{path}[]"),
            };
            add(&mut found, element);
        }
        found
    }

    fn member(&self, object: Node<'_>, name: &str) -> Paths {
        let mut found = Vec::new();
        for path in self.paths(object) {
            add(&mut found, canonical(&format!("{path}.{name}")));
        }
        found
    }

    fn union(&self, nodes: impl Iterator<Item = Node<'a>>) -> Paths {
        let mut found = Vec::new();
        for path in nodes.flat_map(|node| self.paths(node)) {
            add(&mut found, path.clone());
        }
        found
    }
}

/// A path as its author would write it.
pub(crate) fn shown(path: &str) -> &str {
    path.strip_prefix("builtins.").unwrap_or(path)
}

/// Whether a path is an object that the candidate made by calling something, not a module's own member.
pub(crate) fn is_made(path: &str) -> bool {
    path.contains("()") || path.contains("[]")
}

/// Whether a path is the module or something in it.
pub(crate) fn within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn add(paths: &mut Paths, path: String) -> bool {
    if paths.len() >= MAX_PATHS || path.len() > MAX_PATH || paths.contains(&path) {
        return false;
    }
    paths.push(path);
    true
}

/// One spelling for things that have several.
pub(crate) fn canonical(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('.').collect();
    if !is_made(path)
        && let Some(at) = parts.iter().rposition(|part| CARRIED.contains(part))
    {
        parts.drain(..at);
    }
    match parts.first().copied() {
        Some("posix" | "_os" | "nt") => parts[0] = "os",
        Some("_sys") => parts[0] = "sys",
        Some("_socket") => parts[0] = "socket",
        Some("__builtin__" | "__builtins__") => parts[0] = "builtins",
        Some("io" | "_io" | "codecs") if parts.get(1) == Some(&"open") => parts[0] = "builtins",
        _ => {}
    }
    parts.join(".")
}
