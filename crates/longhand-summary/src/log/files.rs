//! The files that were changed, as a block lists them.

use super::action::FileChange;
use super::work::FileChanges;

/// A file in the list, without the common folder.
pub(super) fn file_item(file: &FileChanges, root: &str) -> String {
    let path = file.path.strip_prefix(root).unwrap_or(&file.path).replace(", ", ",");
    let what = match file.change {
        FileChange::Created => " new",
        FileChange::Changed => "",
        FileChange::Deleted => " deleted",
    };
    if file.count > 1 { format!("{path}{what} ×{}", file.count) } else { format!("{path}{what}") }
}

/// The folder that most absolute paths share, so that it is named only once.
pub(super) fn common_root<'p>(paths: impl Iterator<Item = &'p str>) -> String {
    let mut absolute: Vec<&str> = paths.filter(|path| path.starts_with('/')).collect();
    absolute.sort_unstable();
    absolute.dedup();
    // A few files may lie elsewhere, so one of them alone does not tell; most of these begin with the folder.
    let every = absolute.len().div_ceil(8).max(1);
    let starts = absolute.iter().step_by(every).filter(|_| absolute.len() > 1);
    let roots = starts.flat_map(|path| path.match_indices('/').map(|(slash, _)| &path[..=slash]));
    let is_common = |root: &&str| {
        let inside = absolute.iter().filter(|path| path.starts_with(*root)).count();
        root.len() > 1 && inside * 4 >= absolute.len() * 3
    };
    roots.filter(is_common).max_by_key(|root| root.len()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_deepest_that_most_files_share() {
        let root = |paths: &[&str]| common_root(paths.iter().copied());
        let plan = "/home/u/.notes/plan.md";
        assert_eq!(
            root(&[plan, "/home/u/p/src/a.rs", "/home/u/p/b.rs", "/home/u/p/c.rs"]),
            "/home/u/p/"
        );
        assert_eq!(root(&["/home/u/p/a.rs", plan]), "/home/u/");
        assert_eq!(root(&["/a/b.rs", "/c/d.rs"]), "");
        assert_eq!(root(&["/a/b.rs"]), "");
        assert_eq!(root(&["src/a.rs", "src/b.rs"]), "");
    }
}
