//! The syntax tree as a flat list in source order.
//!
//! tree-sitter's own nodes find their parent by walking down from the root, and recursion over them would let a deeply nested
//! source overflow the stack. A flat list with parents and subtree ends makes every walk a loop.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use tree_sitter::{Language, ParseOptions, Parser, Point};

/// Kept for ever, so that names of kinds and fields live as long.
static LANGUAGE: LazyLock<Language> = LazyLock::new(|| tree_sitter_python::LANGUAGE.into());

/// Python itself stops at 100 indents and 200 brackets. The cap keeps walks towards the root short.
const MAX_DEPTH: usize = 1000;

struct Data {
    kind: &'static str,
    field: &'static str,
    start: u32,
    end: u32,
    parent: u32,
    /// Index of the first node after this one's subtree.
    after: u32,
    named: bool,
    broken: bool,
}

/// One parsed source.
pub(crate) struct Ast<'s> {
    source: &'s str,
    nodes: Vec<Data>,
    lines: Vec<usize>,
}

impl<'s> Ast<'s> {
    /// Parses, or gives up when the parser needs far more steps than a source of this size should, or nesting is absurd.
    pub(crate) fn parse(source: &'s str) -> Option<Self> {
        let mut parser = Parser::new();
        parser.set_language(&LANGUAGE).ok()?;
        // The parser reports about every hundred operations; honest sources stay below one report per ten bytes.
        let mut budget = 20_000 + source.len();
        let mut progress = |_: &tree_sitter::ParseState| {
            budget = budget.saturating_sub(1);
            if budget == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let bytes = source.as_bytes();
        let mut read = |at: usize, _: Point| bytes.get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut read, None, Some(options))?;

        let mut nodes: Vec<Data> = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut cursor = tree.walk();
        loop {
            let node = cursor.node();
            let field = cursor.field_id().and_then(|id| LANGUAGE.field_name_for_id(id.get()));
            let id = nodes.len() as u32;
            nodes.push(Data {
                kind: LANGUAGE.node_kind_for_id(node.kind_id()).unwrap_or_default(),
                field: field.unwrap_or_default(),
                start: node.start_byte() as u32,
                end: node.end_byte() as u32,
                parent: open.last().copied().unwrap_or(0),
                after: id + 1,
                named: node.is_named(),
                broken: node.is_error() || node.is_missing(),
            });
            if cursor.goto_first_child() {
                open.push(id);
                if open.len() > MAX_DEPTH {
                    return None;
                }
                continue;
            }
            let mut done = false;
            while !cursor.goto_next_sibling() {
                let (Some(closed), true) = (open.pop(), cursor.goto_parent()) else {
                    done = true;
                    break;
                };
                nodes[closed as usize].after = nodes.len() as u32;
            }
            if done {
                break;
            }
        }
        let end = nodes.len() as u32;
        if let Some(root) = nodes.first_mut() {
            root.after = end;
        }
        let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Some(Self { source, nodes, lines })
    }

    /// The source with blanks in the place of Python's comments and documentation strings, byte for byte.
    pub(crate) fn code(&self) -> String {
        let mut bytes = self.source.as_bytes().to_vec();
        let documentation = |node: &Node<'_>| {
            node.is_any(&["string", "concatenated_string"])
                && node.parent().is_some_and(|parent| parent.is("expression_statement"))
        };
        for node in self.all().filter(|node| node.is("comment") || documentation(node)) {
            let range = node.start()..node.data().end as usize;
            for byte in bytes.get_mut(range).into_iter().flatten().filter(|byte| **byte != b'\n') {
                *byte = b' ';
            }
        }
        String::from_utf8(bytes).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn root(&self) -> Node<'_> {
        self.node(0)
    }

    pub(crate) fn node(&self, id: usize) -> Node<'_> {
        Node { ast: self, id: id as u32 }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Node<'_>> {
        (0..self.len()).map(|id| self.node(id))
    }

    /// The line of a byte, from 1.
    pub(crate) fn line(&self, byte: usize) -> usize {
        self.lines.partition_point(|start| *start <= byte).max(1)
    }

    /// The column of a byte in characters, from 1.
    pub(crate) fn column(&self, byte: usize) -> usize {
        let start = self.lines[self.line(byte) - 1];
        self.source.get(start..byte).map_or(1, |before| before.chars().count() + 1)
    }

    /// The text of a line, without indentation, cut to 160 characters.
    pub(crate) fn excerpt(&self, line: usize) -> String {
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let text = self.source.get(start..).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().chars().take(160).collect()
    }
}

/// A place in the tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    ast: &'a Ast<'a>,
    id: u32,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<'a> Node<'a> {
    fn data(self) -> &'a Data {
        &self.ast.nodes[self.id as usize]
    }

    pub(crate) fn id(self) -> usize {
        self.id as usize
    }

    pub(crate) fn kind(self) -> &'static str {
        self.data().kind
    }

    pub(crate) fn is(self, kind: &str) -> bool {
        self.data().kind == kind
    }

    pub(crate) fn is_any(self, kinds: &[&str]) -> bool {
        kinds.contains(&self.data().kind)
    }

    /// A syntax error, or a token that the parser had to make up.
    pub(crate) fn is_broken(self) -> bool {
        self.data().broken
    }

    pub(crate) fn start(self) -> usize {
        self.data().start as usize
    }

    pub(crate) fn text(self) -> &'a str {
        self.ast.source.get(self.start()..self.data().end as usize).unwrap_or_default()
    }

    /// The name of the parent's field that holds this node, or nothing.
    pub(crate) fn role(self) -> &'static str {
        self.data().field
    }

    pub(crate) fn parent(self) -> Option<Node<'a>> {
        (self.id != 0).then(|| Node { ast: self.ast, id: self.data().parent })
    }

    pub(crate) fn ancestors(self) -> impl Iterator<Item = Node<'a>> {
        std::iter::successors(self.parent(), |node| node.parent())
    }

    /// Children of every sort, operators and brackets included.
    pub(crate) fn tokens(self) -> impl Iterator<Item = Node<'a>> {
        let after = self.data().after;
        let first = Node { ast: self.ast, id: self.id + 1 };
        std::iter::successors((self.id + 1 < after).then_some(first), move |node| {
            let next = node.data().after;
            (next < after).then_some(Node { ast: node.ast, id: next })
        })
    }

    /// Named children, comments left out.
    pub(crate) fn children(self) -> impl Iterator<Item = Node<'a>> {
        self.tokens().filter(|node| node.data().named && !node.is("comment"))
    }

    pub(crate) fn field(self, name: &str) -> Option<Node<'a>> {
        self.tokens().find(|node| node.role() == name)
    }

    pub(crate) fn fields(self, name: &'static str) -> impl Iterator<Item = Node<'a>> {
        self.tokens().filter(move |node| node.role() == name)
    }

    /// Everything below, in source order.
    pub(crate) fn descendants(self) -> impl Iterator<Item = Node<'a>> {
        let ast = self.ast;
        (self.id + 1..self.data().after).map(move |id| Node { ast, id })
    }

    /// This node and everything below.
    pub(crate) fn subtree(self) -> impl Iterator<Item = Node<'a>> {
        std::iter::once(self).chain(self.descendants())
    }

    /// Whether `other` lies in this subtree.
    pub(crate) fn contains(self, other: Node<'_>) -> bool {
        (self.id..self.data().after).contains(&other.id)
    }

    /// Everything below that runs when this node runs: bodies of functions and classes defined inside are left out.
    pub(crate) fn own_code(self) -> impl Iterator<Item = Node<'a>> {
        let ast = self.ast;
        let after = self.data().after;
        std::iter::successors(Some(self), move |node| {
            let nested = node.id != self.id && node.is_any(&["function_definition", "lambda", "class_definition"]);
            let next = if nested { node.data().after } else { node.id + 1 };
            (next < after).then_some(Node { ast, id: next })
        })
        .skip(1)
    }

    /// Positional arguments of a call.
    pub(crate) fn positional(self) -> impl Iterator<Item = Node<'a>> {
        self.field("arguments")
            .filter(|list| list.is("argument_list"))
            .into_iter()
            .flat_map(Node::children)
            .filter(|argument| !argument.is("keyword_argument"))
    }

    /// A keyword argument's value.
    pub(crate) fn keyword(self, name: &str) -> Option<Node<'a>> {
        self.field("arguments")?
            .children()
            .filter(|argument| argument.is("keyword_argument"))
            .find(|argument| argument.field("name").is_some_and(|key| key.text() == name))?
            .field("value")
    }

    /// The value inside brackets and `await`s.
    pub(crate) fn unwrapped(self) -> Node<'a> {
        let mut node = self;
        while node.is_any(&["parenthesized_expression", "await"]) {
            let Some(inner) = node.children().next() else { break };
            node = inner;
        }
        node
    }
}
