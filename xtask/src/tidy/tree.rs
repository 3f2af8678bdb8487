//! The files of the project as git sees them: tracked ones and new ones that are not ignored, read once.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;

/// One file. Its path is relative to the root, with `/` between the parts.
pub(super) struct File {
    pub(super) path: String,
    /// Nothing if it is not text.
    pub(super) text: Option<String>,
}

/// All files, sorted by path.
pub(super) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads the files of a git work tree. A new file is checked before it is added, not one commit later.
    pub(super) fn of_workspace(root: &Path) -> Result<Self> {
        let mut command = Command::new("git");
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let output = command.output().map_err(|error| format!("cannot run git: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let paths = String::from_utf8_lossy(&output.stdout);
        Ok(Self::new(paths.split_terminator('\0').filter_map(|path| read(root, path)).collect()))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: Some((*text).into()) };
        Self::new(files.iter().map(file).collect())
    }

    fn new(mut files: Vec<File>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        // A file in the middle of a merge is listed once per side.
        files.dedup_by(|a, b| a.path == b.path);
        Self { files }
    }

    /// Path and text of every text file.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// Text files whose path begins and ends like this.
    pub(super) fn texts_in(&self, start: &str, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.starts_with(start) && path.ends_with(end))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(name, _)| *name == path).map(|(_, text)| text)
    }

    /// Whether there is such a file, or a folder with files in it.
    pub(super) fn contains(&self, path: &str) -> bool {
        let in_it = |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        path.is_empty() || self.files.iter().any(|file| file.path == path || in_it(file))
    }
}

/// A file that was deleted but not yet removed from the index is not there; nor is a submodule a file.
fn read(root: &Path, path: &str) -> Option<File> {
    let bytes = fs::read(root.join(path)).ok()?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    Some(File { path: path.to_owned(), text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    fn git(root: &Path, args: &[&str]) {
        assert!(Command::new("git").args(args).current_dir(root).output().unwrap().status.success());
    }

    #[test]
    fn tracked_and_new_files_are_read_but_not_ignored_or_deleted_ones() {
        let root = machine::unique_folder(&std::env::temp_dir(), "posthaste-xtask").unwrap();
        git(&root, &["init", "--quiet"]);
        for (name, text) in [(".gitignore", "*.log\n"), ("a b.txt", "x"), ("gone.txt", "x"), ("c.log", "x")] {
            fs::write(root.join(name), text).unwrap();
        }
        git(&root, &["add", "gone.txt", "a b.txt"]);
        fs::remove_file(root.join("gone.txt")).unwrap();
        fs::write(root.join("image"), b"\xff\0").unwrap();
        let tree = Tree::of_workspace(&root).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".gitignore", "a b.txt", "image"]);
        assert_eq!(tree.texts().count(), 2);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_folder_is_contained_if_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/guide/start.md", "")]);
        assert!(tree.contains("docs/guide/start.md") && tree.contains("docs/guide") && tree.contains(""));
        assert!(!tree.contains("docs/gui") && !tree.contains("docs/guide/other.md"));
    }
}
