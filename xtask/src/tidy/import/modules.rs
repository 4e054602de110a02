//! The modules of a crate, one a file, and which of them imports which.

use std::collections::BTreeMap;

use super::uses::{self, Use};
use crate::tidy::{File, Tree};

/// How many re-exports lead to an item at most.
const MAX_REEXPORTS: usize = 16;

/// The modules of one crate.
pub(super) struct Modules<'a> {
    modules: Vec<Module<'a>>,
    by_path: BTreeMap<Vec<String>, usize>,
}

struct Module<'a> {
    file: &'a File,
    /// From the crate's root, which has an empty path.
    path: Vec<String>,
    uses: Vec<Use>,
}

/// An import of one file's item in another one. Both are paths of modules.
pub(super) struct Import<'a> {
    pub(super) from: &'a [String],
    pub(super) to: &'a [String],
    pub(super) file: &'a File,
    pub(super) item: &'a Use,
}

impl<'a> Modules<'a> {
    pub(super) fn read(tree: &'a Tree, folder: &str) -> Self {
        let modules = tree.0.iter().filter_map(|file| {
            let path = file.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
            let path = if matches!(path, "lib" | "main") { "" } else { path };
            let path = path.split_terminator('/').map(str::to_owned).collect();
            Some(Module { file, path, uses: uses::read(&file.text) })
        });
        let modules: Vec<_> = modules.collect();
        let by_path = modules.iter().enumerate();
        let by_path = by_path.map(|(number, module)| (module.path.clone(), number)).collect();
        Self { modules, by_path }
    }

    /// Returns the imports between different files.
    pub(super) fn imports(&self) -> Vec<Import<'_>> {
        let mut imports = Vec::new();
        for (number, Module { file, path: from, uses }) in self.modules.iter().enumerate() {
            for item in uses.iter().filter(|item| !item.is_public) {
                let to = self.resolve(number, &item.path, 0).filter(|to| *to != number);
                if let Some(Module { path: to, .. }) = to.and_then(|to| self.modules.get(to)) {
                    imports.push(Import { from, to, file, item });
                }
            }
        }
        imports
    }

    /// Returns the module that defines what `path` means in a module, or `None` if it is of another
    /// crate.
    fn resolve(&self, module: usize, path: &[String], reexports: usize) -> Option<usize> {
        if reexports > MAX_REEXPORTS {
            return None;
        }
        let here = &self.modules.get(module)?.path;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(*self.by_path.get(&Vec::new())?, rest, reexports),
            "self" => self.walk(module, rest, reexports),
            "super" => {
                let (_, parent) = here.split_last()?;
                let mut parent = *self.by_path.get(parent)?;
                let mut rest = rest;
                while let Some((first, others)) = rest.split_first()
                    && first == "super"
                {
                    let (_, above) = self.modules.get(parent)?.path.split_last()?;
                    parent = *self.by_path.get(above)?;
                    rest = others;
                }
                self.walk(parent, rest, reexports)
            }
            name => {
                let is_known = self.child(module, name).is_some()
                    || self.reexport(module, name).is_some_and(|item| item.path != path);
                if is_known { self.walk(module, path, reexports) } else { None }
            }
        }
    }

    fn walk(&self, mut module: usize, path: &[String], reexports: usize) -> Option<usize> {
        for (index, name) in path.iter().enumerate() {
            if let Some(child) = self.child(module, name) {
                module = child;
            } else if let Some(item) = self.reexport(module, name) {
                let rest = path.get(index + 1..).unwrap_or_default();
                let target: Vec<String> = item.path.iter().chain(rest).cloned().collect();
                return self.resolve(module, &target, reexports + 1);
            } else {
                break;
            }
        }
        Some(module)
    }

    fn child(&self, module: usize, name: &str) -> Option<usize> {
        let mut path = self.modules.get(module)?.path.clone();
        path.push(name.to_owned());
        self.by_path.get(&path).copied()
    }

    fn reexport(&self, module: usize, name: &str) -> Option<&Use> {
        self.modules.get(module)?.uses.iter().find(|item| item.name == name)
    }
}
