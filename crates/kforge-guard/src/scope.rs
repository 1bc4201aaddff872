//! Which names a source binds, scope by scope.
//!
//! Flow is not followed: a name has all the values that its scope ever gives it, and a rule asks whether one of them is bad.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Ast, Node};

/// What a name was bound to.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    /// `name = expression`, the expression being evaluated in the given scope.
    Expr(Node<'a>),
    /// `for name in expression`.
    Item(Node<'a>),
    Function(Node<'a>),
    /// The parameter of a function at a position; its default is a value of its own.
    Parameter(Node<'a>, usize),
    /// Classes, results of unpacking and the like.
    Opaque,
    /// More values than anybody honest gives to one name: nothing can be said about it.
    TooMany,
}

const MAX_VALUES: usize = 64;

struct Scope {
    parent: u32,
    class: bool,
}

/// One name brought in from outside.
pub(crate) struct Import<'a> {
    pub(crate) node: Node<'a>,
    /// Dotted name of the module or of its member.
    pub(crate) path: String,
}

pub(crate) struct Scopes<'a> {
    nested: Vec<Scope>,
    /// For each node, the scope that it lies in.
    of: Vec<u32>,
    /// By scope, then by name.
    values: Vec<BTreeMap<&'a str, Vec<Value<'a>>>>,
    imported: Vec<BTreeMap<&'a str, Vec<String>>>,
    pub(crate) imports: Vec<Import<'a>>,
    pub(crate) wildcards: Vec<String>,
    /// Scope of each function's inside, by its node.
    inside: BTreeMap<usize, u32>,
    redirects: BTreeSet<(u32, &'a str)>,
}

impl<'a> Scopes<'a> {
    pub(crate) fn collect(ast: &'a Ast<'a>) -> Self {
        let mut found = Self {
            nested: vec![Scope { parent: 0, class: false }],
            of: vec![0; ast.len()],
            values: Vec::new(),
            imported: Vec::new(),
            imports: Vec::new(),
            wildcards: Vec::new(),
            inside: BTreeMap::new(),
            redirects: BTreeSet::new(),
        };
        for node in ast.all().skip(1) {
            let parent = node.parent().map_or(0, Node::id);
            let scope = found.inside.get(&parent).copied().unwrap_or(found.of[parent]);
            found.of[node.id()] = scope;
            if node.is_any(&["function_definition", "lambda", "class_definition"]) {
                found.inside.insert(node.id(), found.nested.len() as u32);
                found.nested.push(Scope { parent: scope, class: node.is("class_definition") });
            }
            if node.is_any(&["global_statement", "nonlocal_statement"]) {
                found.redirects.extend(node.children().map(|name| (scope, name.text())));
            }
        }
        found.values.resize_with(found.nested.len(), BTreeMap::new);
        found.imported.resize_with(found.nested.len(), BTreeMap::new);
        for node in ast.all() {
            found.bind_node(node);
        }
        found
    }

    pub(crate) fn of(&self, node: Node<'_>) -> u32 {
        self.of[node.id()]
    }

    pub(crate) fn inside(&self, function: Node<'_>) -> u32 {
        self.inside.get(&function.id()).copied().unwrap_or(0)
    }

    /// The scope whose binding of `name` is seen from `scope`.
    pub(crate) fn find(&self, scope: u32, name: &str) -> Option<u32> {
        let mut at = scope;
        loop {
            let visible = at == scope || !self.nested[at as usize].class;
            if visible && (self.values[at as usize].contains_key(name) || self.imported[at as usize].contains_key(name))
            {
                return Some(at);
            }
            if at == 0 {
                return None;
            }
            at = self.nested[at as usize].parent;
        }
    }

    /// All values of a name as seen from a node, imports left out.
    pub(crate) fn values(&self, node: Node<'_>) -> &[Value<'a>] {
        let name = node.text();
        self.find(self.of(node), name)
            .and_then(|scope| self.values[scope as usize].get(name))
            .map_or(&[], Vec::as_slice)
    }

    /// All names with their values, by scope.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &'a str, &Vec<Value<'a>>)> {
        let scopes = self.values.iter().enumerate();
        scopes.flat_map(|(scope, names)| names.iter().map(move |(name, values)| (scope as u32, *name, values)))
    }

    /// What names are bound to by import statements, by scope.
    pub(crate) fn imported(&self) -> &[BTreeMap<&'a str, Vec<String>>] {
        &self.imported
    }

    fn target(&self, scope: u32, name: &'a str) -> (u32, &'a str) {
        if !self.redirects.contains(&(scope, name)) {
            return (scope, name);
        }
        let parent = self.nested[scope as usize].parent;
        (self.find(parent, name).unwrap_or(0), name)
    }

    fn bind(&mut self, name: Node<'a>, scope: u32, value: Value<'a>) {
        let (scope, name) = self.target(scope, name.text());
        let values = self.values[scope as usize].entry(name).or_default();
        match values.len() {
            0..MAX_VALUES => values.push(value),
            MAX_VALUES => values.push(Value::TooMany),
            _ => {}
        }
    }

    fn bind_node(&mut self, node: Node<'a>) {
        let scope = self.of(node);
        match node.kind() {
            "import_statement" => self.bind_import(node),
            "import_from_statement" => self.bind_import_from(node),
            "assignment" => {
                if let (Some(left), Some(right)) = (node.field("left"), node.field("right")) {
                    // `a = b = c` nests: the value is at the very right.
                    let mut value = right;
                    while let Some(next) = value.is("assignment").then(|| value.field("right")).flatten() {
                        value = next;
                    }
                    self.bind_pattern(left, scope, value);
                }
            }
            "augmented_assignment" => {
                if let Some(left) = node.field("left").filter(|left| left.is("identifier")) {
                    self.bind(left, scope, Value::Opaque);
                }
            }
            "named_expression" => {
                if let (Some(name), Some(value)) = (node.field("name"), node.field("value")) {
                    self.bind(name, scope, Value::Expr(value));
                }
            }
            "for_statement" | "for_in_clause" => {
                if let (Some(left), Some(right)) = (node.field("left"), node.field("right")) {
                    if left.is("identifier") {
                        self.bind(left, scope, Value::Item(right));
                    } else {
                        self.bind_opaque(left, scope);
                    }
                }
            }
            "function_definition" => {
                if let Some(name) = node.field("name") {
                    self.bind(name, scope, Value::Function(node));
                }
                self.bind_parameters(node);
            }
            "lambda" => self.bind_parameters(node),
            "class_definition" => {
                if let Some(name) = node.field("name") {
                    self.bind(name, scope, Value::Opaque);
                }
            }
            "as_pattern" => {
                let value = node.children().next();
                let name = node.field("alias").and_then(|target| target.children().next());
                if let (Some(name), Some(value)) = (name, value) {
                    if name.is("identifier") {
                        self.bind(name, scope, Value::Expr(value));
                    } else {
                        self.bind_opaque(name, scope);
                    }
                }
            }
            _ => {}
        }
    }

    fn bind_pattern(&mut self, left: Node<'a>, scope: u32, value: Node<'a>) {
        if left.is("identifier") {
            self.bind(left, scope, Value::Expr(value));
        } else if left.is_any(&["pattern_list", "tuple_pattern", "list_pattern"]) {
            let (names, values) = (left.children().count(), value.children().count());
            if value.is_any(&["expression_list", "tuple", "list"]) && names == values {
                for (name, value) in left.children().zip(value.children()) {
                    if name.is("identifier") {
                        self.bind(name, scope, Value::Expr(value));
                    } else {
                        self.bind_opaque(name, scope);
                    }
                }
            } else {
                self.bind_opaque(left, scope);
            }
        }
    }

    fn bind_opaque(&mut self, pattern: Node<'a>, scope: u32) {
        for node in pattern.subtree() {
            // The names in `a[i]` and `a.b` as targets are read, not bound.
            let read = node
                .ancestors()
                .take_while(|up| pattern.contains(*up))
                .any(|up| up.is_any(&["attribute", "subscript"]));
            if node.is("identifier") && !read {
                self.bind(node, scope, Value::Opaque);
            }
        }
    }

    fn bind_parameters(&mut self, function: Node<'a>) {
        let inside = self.inside(function);
        for (i, parameter) in function.field("parameters").into_iter().flat_map(Node::children).enumerate() {
            let name = parameter.field("name").or_else(|| {
                parameter.subtree().find(|node| node.is("identifier") && !node.ancestors().any(|up| up.is("type")))
            });
            let Some(name) = name else { continue };
            self.bind(name, inside, Value::Parameter(function, i));
            // A default is evaluated outside: `def f(torch=torch)` must not look for itself.
            if let Some(default) = parameter.field("value") {
                self.bind(name, inside, Value::Expr(default));
                let outside = self.of(function);
                for node in default.subtree() {
                    self.of[node.id()] = outside;
                }
            }
        }
    }

    fn bind_path(&mut self, name: &'a str, scope: u32, path: String) {
        let (scope, name) = self.target(scope, name);
        self.imported[scope as usize].entry(name).or_default().push(path);
    }

    fn bind_import(&mut self, node: Node<'a>) {
        let scope = self.of(node);
        for item in node.children() {
            if item.is("aliased_import") {
                if let (Some(name), Some(alias)) = (item.field("name"), item.field("alias")) {
                    self.bind_path(alias.text(), scope, dotted(name));
                    self.imports.push(Import { node: item, path: dotted(name) });
                }
            } else if let Some(first) = item.children().next() {
                // `import a.b` binds `a`.
                self.bind_path(first.text(), scope, first.text().to_owned());
                self.imports.push(Import { node: item, path: dotted(item) });
            }
        }
    }

    fn bind_import_from(&mut self, node: Node<'a>) {
        let scope = self.of(node);
        let Some(module) = node.field("module_name").map(dotted) else { return };
        if node.children().any(|child| child.is("wildcard_import")) {
            self.imports.push(Import { node, path: module.clone() });
            self.wildcards.push(module.clone());
        }
        for item in node.fields("name") {
            let name = item.field("name").unwrap_or(item);
            let alias = item.field("alias").unwrap_or(name);
            let path = format!("{module}.{}", dotted(name));
            self.bind_path(alias.text(), scope, path.clone());
            self.imports.push(Import { node: item, path });
        }
    }
}

/// A dotted name without the blanks and line breaks that Python allows around its dots.
fn dotted(name: Node<'_>) -> String {
    name.text().chars().filter(|c| !c.is_whitespace() && *c != '\\').collect()
}
