//! Whether a command runs a compiler, the one program that an honest candidate needs.

use std::cell::Cell;

use crate::ast::Node;
use crate::resolve::Names;
use crate::scope::Value;
use crate::text;

const COMPILERS: &[&str] =
    &["g++", "gcc", "c++", "cc", "clang", "clang++", "nvcc", "hipcc", "icpx", "icx", "dpcpp", "amdclang", "amdclang++"];
const COMPILER_VARIABLES: &[&str] = &["CXX", "CC", "CUDACXX", "NVCC", "HIPCC"];
/// Flags with which a compiler runs something else.
const ESCAPES: &[&str] =
    &["-fplugin", "-wrapper", "-specs", "-B", "@", "-ccbin", "--compiler-bindir", "-Xclang", "-load"];

/// Whether a name or path is that of a compiler; versions such as `g++-13` count.
pub(crate) fn is_compiler_name(name: &str) -> bool {
    let file = name.trim().rsplit('/').next().unwrap_or_default();
    let bare = file.rsplit_once('-').filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    COMPILERS.contains(&bare.map_or(file, |(bare, _)| bare))
}

/// Whether a `subprocess` call runs a compiler, given as a list and without a shell.
pub(crate) fn runs_compiler(names: &Names<'_>, call: Node<'_>) -> bool {
    let shell = call.keyword("shell").is_some_and(|value| !value.is("false"));
    if shell || call.keyword("executable").is_some() || call.keyword("preexec_fn").is_some() {
        return false;
    }
    let command = call.positional().next().or_else(|| call.keyword("args"));
    command.is_some_and(|command| Checker { names, fuel: Cell::new(500) }.list(command))
}

/// Whether an expression can only be the name of a compiler.
pub(crate) fn names_compiler(names: &Names<'_>, node: Node<'_>) -> bool {
    Checker { names, fuel: Cell::new(500) }.program(node)
}

struct Checker<'e, 'a> {
    names: &'e Names<'a>,
    /// Names that refer to names could otherwise multiply without end, or go round in circles.
    fuel: Cell<u32>,
}

impl Checker<'_, '_> {
    fn spend(&self) -> bool {
        let left = self.fuel.get().saturating_sub(1);
        self.fuel.set(left);
        left > 0
    }

    /// A list that begins with a compiler.
    fn list(&self, node: Node<'_>) -> bool {
        let node = node.unwrapped();
        if !self.spend() {
            return false;
        }
        match node.kind() {
            "list" | "tuple" => {
                let escapes = node
                    .children()
                    .filter_map(|word| text::prefix(word, &self.names.scopes))
                    .any(|word| ESCAPES.iter().any(|escape| word.starts_with(escape)));
                let head = node.children().next();
                !escapes
                    && head.is_some_and(|head| {
                        let spread = head.children().next().filter(|_| head.is("list_splat"));
                        spread.map_or_else(|| self.program(head), |inner| self.list(inner))
                    })
            }
            "binary_operator" => node.field("left").is_some_and(|left| self.list(left)),
            "conditional_expression" => self.branches(node, Self::list),
            "identifier" => self.every_value(node, Self::list),
            "call" => self.every_return(node, Self::list),
            _ => false,
        }
    }

    fn program(&self, node: Node<'_>) -> bool {
        let node = node.unwrapped();
        if !self.spend() {
            return false;
        }
        if let Some(text) = text::prefix(node, &self.names.scopes) {
            return is_compiler_name(&text);
        }
        match node.kind() {
            "identifier" => self.every_value(node, Self::program),
            "boolean_operator" => {
                node.field("operator").is_some_and(|operator| operator.is("or"))
                    && node.children().all(|side| self.program(side))
            }
            "conditional_expression" => self.branches(node, Self::program),
            "binary_operator" => node.field("right").is_some_and(|right| self.program(right)),
            "subscript" => {
                node.field("value").is_some_and(|value| self.names.is(value, "os.environ"))
                    && node.field("subscript").is_some_and(|key| self.is_variable(key))
            }
            "call" => self.program_of_call(node),
            _ => false,
        }
    }

    fn program_of_call(&self, call: Node<'_>) -> bool {
        let mut arguments = call.positional();
        if self.names.calls(call, &["os.environ.get", "os.getenv"]) {
            let key = arguments.next().is_some_and(|key| self.is_variable(key));
            return key && arguments.next().is_none_or(|default| default.is("none") || self.program(default));
        }
        let same = ["shutil.which", "builtins.str", "os.path.realpath", "os.path.abspath", "os.fspath", "pathlib.Path"];
        if self.names.calls(call, &same) || self.names.calls(call, &["os.path.join"]) {
            return arguments.last().is_some_and(|last| self.program(last));
        }
        self.every_return(call, Self::program)
    }

    fn is_variable(&self, key: Node<'_>) -> bool {
        self.names.constant(key).is_some_and(|key| COMPILER_VARIABLES.contains(&key.as_str()))
    }

    fn branches(&self, node: Node<'_>, good: fn(&Self, Node<'_>) -> bool) -> bool {
        node.children().enumerate().all(|(i, branch)| i == 1 || good(self, branch))
    }

    /// At least one known value, and no known value that is something else. `None` stands for "not found yet".
    fn every_value(&self, name: Node<'_>, good: fn(&Self, Node<'_>) -> bool) -> bool {
        let mut known = false;
        for value in self.names.scopes.values(name) {
            let fine = match value {
                Value::Expr(expression) if expression.is("none") => continue,
                Value::Opaque => continue,
                Value::Parameter(function, i) => {
                    let mut arguments = self.names.arguments(*function, *i).peekable();
                    if arguments.peek().is_none() {
                        continue;
                    }
                    arguments.all(|argument| good(self, argument))
                }
                Value::Expr(expression) => good(self, *expression),
                Value::Item(list) => {
                    list.is_any(&["list", "tuple"]) && list.children().all(|element| good(self, element))
                }
                Value::Function(_) | Value::TooMany => false,
            };
            if !fine {
                return false;
            }
            known = true;
        }
        known
    }

    fn every_return(&self, call: Node<'_>, good: fn(&Self, Node<'_>) -> bool) -> bool {
        let mut known = false;
        for function in self.names.callees(call) {
            for statement in function.own_code().filter(|node| node.is("return_statement")) {
                if let Some(value) = statement.children().next().filter(|value| !value.is("none")) {
                    if !good(self, value) {
                        return false;
                    }
                    known = true;
                }
            }
        }
        known
    }
}
