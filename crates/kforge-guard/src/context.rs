//! What the rules look at.

use std::collections::BTreeSet;

use kforge_types::{Finding, Severity};

use crate::Settings;
use crate::ast::{Ast, Node};
use crate::flow::Reach;
use crate::native::{self, Native};
use crate::resolve::{Names, canonical};

/// A source, parsed and resolved once for all rules.
pub(crate) struct Context<'a> {
    pub(crate) ast: &'a Ast<'a>,
    pub(crate) settings: &'a Settings,
    pub(crate) names: Names<'a>,
    pub(crate) natives: Vec<Native>,
    pub(crate) reach: Reach,
    /// Places that are assigned to or deleted: names, attributes and elements.
    pub(crate) stores: Vec<Node<'a>>,
    store_ids: BTreeSet<usize>,
}

/// A module or a member of one that the source brings in, by statement or by call.
pub(crate) struct Brought<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) path: String,
    /// The first part of the name as it is written: `from cupy import os` runs cupy, although it brings in `os`.
    pub(crate) package: String,
}

impl<'a> Brought<'a> {
    fn new(node: Node<'a>, path: &str) -> Self {
        Self { node, path: canonical(path), package: path.split('.').next().unwrap_or_default().to_owned() }
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(ast: &'a Ast<'a>, settings: &'a Settings) -> Self {
        let names = Names::resolve(ast);
        let natives = native::collect(ast, &names.scopes);
        let stores = stores(ast);
        let store_ids = stores.iter().map(|place| place.id()).collect();
        Self { ast, settings, names, natives, reach: Reach::collect(ast), stores, store_ids }
    }

    pub(crate) fn is_store(&self, node: Node<'_>) -> bool {
        self.store_ids.contains(&node.id())
    }

    pub(crate) fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = Node<'a>> {
        self.ast.all().filter(move |node| node.is(kind))
    }

    /// Expressions that stand for something imported or built in.
    pub(crate) fn references(&self) -> impl Iterator<Item = (Node<'a>, &str)> {
        self.ast.all().flat_map(|node| self.names.paths(node).iter().map(move |path| (node, path.as_str())))
    }

    /// Import statements, and calls that import by a literal name.
    pub(crate) fn imports(&self) -> Vec<Brought<'a>> {
        let scopes = &self.names.scopes;
        let mut found: Vec<Brought<'a>> =
            scopes.imports.iter().map(|import| Brought::new(import.node, &import.path)).collect();
        for call in self.of_kind("call") {
            let imports = ["builtins.__import__", "importlib.import_module", "importlib.__import__", "sys.modules.get"];
            if self.names.calls(call, &imports)
                && let Some(path) = call.positional().next().and_then(|name| self.names.constant(name))
            {
                found.push(Brought::new(call, &path));
            }
        }
        for node in self.of_kind("subscript") {
            if node.field("value").is_some_and(|value| self.names.is(value, "sys.modules"))
                && let Some(path) = node.field("subscript").and_then(|key| self.names.constant(key))
            {
                found.push(Brought::new(node, &path));
            }
        }
        found
    }
}

fn stores<'a>(ast: &'a Ast<'a>) -> Vec<Node<'a>> {
    let mut found = Vec::new();
    for node in ast.all() {
        let target = match node.kind() {
            "assignment" | "augmented_assignment" | "for_statement" | "for_in_clause" => node.field("left"),
            "delete_statement" => node.children().next(),
            "as_pattern_target" => Some(node),
            _ => None,
        };
        let Some(target) = target else { continue };
        let mut open = vec![target];
        while let Some(place) = open.pop() {
            let groups = ["pattern_list", "tuple_pattern", "list_pattern", "expression_list", "tuple", "list"];
            if place.is_any(&groups)
                || place.is_any(&["as_pattern_target", "list_splat_pattern", "parenthesized_expression"])
            {
                open.extend(place.children());
            } else {
                found.push(place);
            }
        }
    }
    found
}

/// Where one rule puts what it finds; one finding a line is enough.
pub(crate) struct Sink<'a> {
    ast: &'a Ast<'a>,
    rule: &'static str,
    severity: Severity,
    seen: BTreeSet<usize>,
    pub(crate) findings: Vec<Finding>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(ast: &'a Ast<'a>, rule: &'static str, severity: Severity) -> Self {
        Self { ast, rule, severity, seen: BTreeSet::new(), findings: Vec::new() }
    }

    pub(crate) fn at(&mut self, node: Node<'_>, message: impl Into<String>) {
        self.at_byte(node.start(), message);
    }

    pub(crate) fn at_byte(&mut self, byte: usize, message: impl Into<String>) {
        let line = self.ast.line(byte);
        if self.seen.insert(line) {
            self.findings.push(Finding {
                rule: self.rule.to_owned(),
                severity: self.severity,
                line,
                column: self.ast.column(byte),
                excerpt: self.ast.excerpt(line),
                message: message.into(),
            });
        }
    }
}
