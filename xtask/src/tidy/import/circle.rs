//! Circles of imports between modules.

use std::collections::BTreeMap;

use super::modules::Import;

/// One module imports another one. Modules are given by their paths.
#[derive(Clone, Copy)]
pub(super) struct Edge<'a> {
    pub(super) from: &'a [String],
    pub(super) to: &'a [String],
    pub(super) import: &'a Import<'a>,
}

impl<'a> Edge<'a> {
    /// Returns the edge between the files of an import.
    pub(super) const fn between_files(import: &'a Import<'a>) -> Self {
        Self { from: import.from, to: import.to, import }
    }

    /// Returns the edge between the siblings that contain the files, or `None` if one file is an
    /// ancestor of the other one. An import of `a/c.rs` in `a/b/d.rs` is an edge from `a/b` to `a/c`.
    pub(super) fn between_siblings(import: &'a Import<'a>) -> Option<Self> {
        let shared = import.from.iter().zip(import.to).take_while(|(from, to)| from == to).count();
        Some(Self { from: import.from.get(..=shared)?, to: import.to.get(..=shared)?, import })
    }
}

/// Returns a shortest circle through each edge that is part of one. Each circle is returned once,
/// starting at its first module in alphabetical order. Between the same two modules, the first import
/// is returned.
pub(super) fn circles<'a>(all: impl IntoIterator<Item = Edge<'a>>) -> Vec<Vec<Edge<'a>>> {
    let mut edges = BTreeMap::new();
    for edge in all {
        edges.entry((edge.from, edge.to)).or_insert(edge);
    }
    let edges: Vec<Edge<'_>> = edges.into_values().collect();

    let mut circles = BTreeMap::new();
    for edge in &edges {
        let Some(mut circle) = shortest_circle(&edges, *edge) else { continue };
        let first = circle.iter().enumerate().min_by_key(|(_, edge)| edge.from);
        let first = first.map_or(0, |(index, _)| index);
        circle.rotate_left(first);
        circles.insert(circle.iter().map(|edge| edge.from).collect::<Vec<_>>(), circle);
    }
    circles.into_values().collect()
}

/// Returns the edges of a shortest circle that starts with `first`.
fn shortest_circle<'a>(edges: &[Edge<'a>], first: Edge<'a>) -> Option<Vec<Edge<'a>>> {
    let mut paths = vec![vec![first]];
    let mut index = 0;
    while let Some(path) = paths.get(index).cloned() {
        let end = path.last()?.to;
        if end == first.from {
            return Some(path);
        }
        for next in edges.iter().filter(|next| next.from == end) {
            if !paths.iter().any(|path| path.last().is_some_and(|last| last.to == next.to)) {
                paths.push(path.iter().copied().chain([*next]).collect());
            }
        }
        index += 1;
    }
    None
}
