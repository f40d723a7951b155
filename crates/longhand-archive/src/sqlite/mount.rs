//! What kind of file system a folder is on.

use std::fs;
use std::path::Path;

/// File systems whose locks and shared memory do not work between machines; SQLite's log needs both.
const NETWORK_KINDS: &[&str] = &[
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
];

/// Returns the kind of network file system that a folder is on; `None` if it is local, or if the
/// system does not tell.
pub(super) fn network_kind(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = kind_of(&folder, &mounts)?;
    NETWORK_KINDS.contains(&kind).then(|| kind.to_owned())
}

/// Each line is `id parent device root MOUNT-POINT options … - KIND source options`.
fn kind_of<'m>(folder: &Path, mounts: &'m str) -> Option<&'m str> {
    let parsed = mounts.lines().filter_map(|line| {
        let (place, file_system) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        folder.starts_with(&point).then_some((point.len(), file_system.split(' ').next()?))
    });
    // Of two on the same point the later one is on top.
    parsed.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "\
            22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 22 0:40 / /home rw - nfs4 server:/home rw\n\
            31 30 0:41 / /home/my\\040disk rw shared:7 master:2 - xfs /dev/vdb rw\n";
        for (folder, kind) in [
            ("/tmp/x", "ext4"),
            ("/home/ann", "nfs4"),
            ("/homeless", "ext4"),
            ("/home/my disk/archive", "xfs"),
        ] {
            assert_eq!(kind_of(Path::new(folder), mounts), Some(kind), "{folder}");
        }
        assert_eq!(kind_of(Path::new("/x"), "nonsense"), None);
    }
}
