//! The tree of names: as it is, as it is durable, and the changes between the two.
//!
//! Invariant: each directory's durable entries with the pending changes applied in order equal its
//! live entries. A change becomes durable only together with all earlier ones in its directories.

use super::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

/// A file or directory, whatever its name.
pub(super) type NodeId = usize;

const ROOT: NodeId = 0;

pub(super) struct Names {
    nodes: Vec<Node>,
    pending: Vec<Vec<Edit>>,
}

#[derive(Clone)]
enum Node {
    File,
    Dir { live: Entries, durable: Entries },
}

type Entries = BTreeMap<String, NodeId>;

/// A name set to a node, or removed. The edits of one change happen together.
#[derive(Clone)]
pub(super) struct Edit {
    pub(super) dir: NodeId,
    pub(super) name: String,
    pub(super) node: Option<NodeId>,
}

impl Edit {
    fn apply(&self, entries: &mut Entries) {
        match self.node {
            Some(node) => entries.insert(self.name.clone(), node),
            None => entries.remove(&self.name),
        };
    }
}

/// The parts of a path below the root; a relative one starts there too.
fn parts(path: &Path) -> io::Result<Vec<String>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(parts)
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            nodes: vec![Node::new_dir()],
            pending: Vec::new(),
        }
    }

    pub(super) fn new_file(&mut self) -> NodeId {
        self.nodes.push(Node::File);
        self.nodes.len() - 1
    }

    pub(super) fn is_dir(&self, node: NodeId) -> bool {
        matches!(self.nodes[node], Node::Dir { .. })
    }

    fn live(&self, dir: NodeId) -> io::Result<&Entries> {
        match &self.nodes[dir] {
            Node::Dir { live, .. } => Ok(live),
            Node::File => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for part in parts(path)? {
            let entries = self.live(node)?;
            node = *entries.get(&part).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    pub(super) fn find_file(&self, path: &Path) -> io::Result<NodeId> {
        let node = self.find(path)?;
        if self.is_dir(node) {
            Err(io::ErrorKind::IsADirectory.into())
        } else {
            Ok(node)
        }
    }

    /// The directory that holds a name, and the name.
    pub(super) fn parent(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let name = parts(path)?.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.live(dir)?;
        Ok((dir, name))
    }

    pub(super) fn entry(&self, dir: NodeId, name: &str) -> Option<NodeId> {
        self.live(dir).ok()?.get(name).copied()
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.live(self.find(path)?)?.keys().cloned().collect())
    }

    /// Whether any live name leads to the node.
    pub(super) fn is_linked(&self, node: NodeId) -> bool {
        self.nodes.iter().any(|other| match other {
            Node::Dir { live, .. } => live.values().any(|entry| *entry == node),
            Node::File => false,
        })
    }

    /// Makes a change, durable with the next sync of one of its directories.
    pub(super) fn change(&mut self, edits: Vec<Edit>) {
        for edit in &edits {
            edit.apply(self.nodes[edit.dir].live_mut());
        }
        self.pending.push(edits);
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut node = ROOT;
        for part in parts(path)? {
            node = match self.live(node)?.get(&part) {
                Some(&found) => found,
                None => {
                    self.nodes.push(Node::new_dir());
                    let made = self.nodes.len() - 1;
                    self.change(vec![Edit {
                        dir: node,
                        name: part,
                        node: Some(made),
                    }]);
                    self.make_durable(BTreeSet::from([node]));
                    made
                }
            };
        }
        self.live(node)?;
        Ok(())
    }

    /// Renames, and gives the file that had the new name before.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Option<NodeId>> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let node = self
            .entry(from_dir, &from_name)
            .ok_or(io::ErrorKind::NotFound)?;
        let replaced = self.entry(to_dir, &to_name);
        if let Some(replaced) = replaced {
            if replaced == node {
                return Ok(None);
            }
            match (self.is_dir(node), self.is_dir(replaced)) {
                (false, true) => return Err(io::ErrorKind::IsADirectory.into()),
                (true, false) => return Err(io::ErrorKind::NotADirectory.into()),
                (true, true) if !self.live(replaced)?.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => {}
            }
        }
        self.change(vec![
            Edit {
                dir: from_dir,
                name: from_name,
                node: None,
            },
            Edit {
                dir: to_dir,
                name: to_name,
                node: Some(node),
            },
        ]);
        Ok(replaced.filter(|replaced| !self.is_dir(*replaced)))
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = self.find(path)?;
        self.live(dir)?;
        self.make_durable(BTreeSet::from([dir]));
        Ok(())
    }

    /// Makes the pending changes in these directories durable, with all that those depend on.
    fn make_durable(&mut self, mut dirs: BTreeSet<NodeId>) {
        let mut durable = vec![false; self.pending.len()];
        for (number, edits) in self.pending.iter().enumerate().rev() {
            if edits.iter().any(|edit| dirs.contains(&edit.dir)) {
                durable[number] = true;
                dirs.extend(edits.iter().map(|edit| edit.dir));
            }
        }
        self.keep(&durable);
    }

    /// Moves the chosen pending changes into the durable entries.
    fn keep(&mut self, chosen: &[bool]) {
        let pending = std::mem::take(&mut self.pending);
        for (edits, &chosen) in pending.into_iter().zip(chosen) {
            if chosen {
                for edit in &edits {
                    edit.apply(self.nodes[edit.dir].durable_mut());
                }
            } else {
                self.pending.push(edits);
            }
        }
    }

    /// The names after a power cut.
    pub(super) fn crash(&self, random: &mut Random) -> Names {
        let mut found = Names {
            nodes: self.nodes.clone(),
            pending: self.pending.clone(),
        };
        // The number of changes that each directory keeps.
        let mut touched: BTreeMap<NodeId, u64> = BTreeMap::new();
        for edit in self.pending.iter().flatten() {
            *touched.entry(edit.dir).or_default() += 1;
        }
        for count in touched.values_mut() {
            *count = random.below(*count + 1);
        }
        let mut kept = Vec::new();
        for edits in &self.pending {
            let mut keep = false;
            for edit in edits {
                let left = touched.get_mut(&edit.dir).expect("counted above");
                keep |= *left > 0;
                *left = left.saturating_sub(1);
            }
            kept.push(keep);
        }
        // What a kept change depends on is kept too.
        let mut needed = BTreeSet::new();
        for (number, edits) in self.pending.iter().enumerate().rev() {
            kept[number] |= edits.iter().any(|edit| needed.contains(&edit.dir));
            if kept[number] {
                needed.extend(edits.iter().map(|edit| edit.dir));
            }
        }
        found.keep(&kept);
        found.pending.clear();
        for node in &mut found.nodes {
            if let Node::Dir { live, durable } = node {
                *live = durable.clone();
            }
        }
        found
    }
}

impl Node {
    fn new_dir() -> Node {
        Node::Dir {
            live: Entries::new(),
            durable: Entries::new(),
        }
    }

    fn live_mut(&mut self) -> &mut Entries {
        match self {
            Node::Dir { live, .. } => live,
            Node::File => panic!("an edit names a directory"),
        }
    }

    fn durable_mut(&mut self) -> &mut Entries {
        match self {
            Node::Dir { durable, .. } => durable,
            Node::File => panic!("an edit names a directory"),
        }
    }
}
