//! Which functions can run once the model is built and called.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Ast, Node};
use crate::scope::Scopes;

/// What is called without being named anywhere in the file.
const ENTRIES: &[&str] = &["forward", "prepare"];

pub(crate) struct Reach {
    /// For each node, the innermost function around it; 0 is the module.
    owner: Vec<u32>,
    reached: BTreeSet<u32>,
}

/// Owner of what only runs when the file is a program.
const NEVER: u32 = u32::MAX;

impl Reach {
    /// Follows mentions of names, which finds too much rather than too little.
    pub(crate) fn collect(ast: &Ast<'_>) -> Self {
        let mut owner = vec![0_u32; ast.len()];
        let mut functions: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for node in ast.all().skip(1) {
            let parent = node.parent().map_or(0, Node::id);
            let up = ast.node(parent);
            owner[node.id()] = if up.is("function_definition") && node.role() != "name" {
                parent as u32
            } else if up.is("if_statement") && node.role() == "consequence" && is_main_guard(up) {
                NEVER
            } else {
                owner[parent]
            };
            if let (true, Some(name)) = (node.is("function_definition"), node.field("name")) {
                functions.entry(name.text()).or_default().push(node.id() as u32);
            }
        }
        let mut reach = Self { owner, reached: BTreeSet::new() };
        let mut mentions: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for node in ast.all() {
            let text = node.is_any(&["identifier", "string_content"]).then(|| node.text());
            let defines = node.role() == "name" && node.parent().is_some_and(|up| up.is("function_definition"));
            let called = text.and_then(|text| functions.get(text));
            if let (Some(called), false) = (called, defines) {
                mentions.entry(reach.owner[node.id()]).or_default().extend(called);
            }
        }
        let entries = functions.iter().filter(|(name, _)| ENTRIES.contains(name) || name.starts_with("__"));
        let mut open: Vec<u32> = entries.flat_map(|(_, nodes)| nodes.iter().copied()).chain([0]).collect();
        while let Some(function) = open.pop() {
            if reach.reached.insert(function) {
                open.extend(mentions.get(&function).into_iter().flatten());
            }
        }
        reach
    }

    pub(crate) fn contains(&self, node: Node<'_>) -> bool {
        self.reached.contains(&self.owner[node.id()])
    }
}

/// `if __name__ == "__main__":` never runs in an evaluation.
fn is_main_guard(statement: Node<'_>) -> bool {
    let Some(condition) = statement.field("condition") else { return false };
    let main = |node: Node<'_>| node.is("string_content") && node.text() == "__main__";
    condition.is("comparison_operator")
        && condition.tokens().any(|token| token.is("=="))
        && condition.children().any(|side| side.text() == "__name__")
        && condition.descendants().any(main)
}

/// The class that the evaluator builds, if the source binds such a name at the top.
pub(crate) fn model_class(scopes: &Scopes<'_>) -> Option<String> {
    ["ModelNew", "NewModel"].into_iter().find(|name| scopes.find(0, name).is_some()).map(str::to_owned)
}
