//! Faults that were found once.

use crate::run::Folder;

const CHAT: &str = r#"[{"role":"user","content":"go"},{"role":"assistant","content":"word word"}]"#;

#[test]
fn two_things_are_not_written_into_one_file() {
    let folder = Folder::with("in.json", CHAT);
    for options in
        ["--archive kept -o kept", "--archive kept --report kept", "-o kept --report ./kept"]
    {
        folder.write("kept", "mine");
        folder
            .run(&format!("compact in.json --budget 1000 {options}"))
            .assert_refused(&["same file", "kept"]);
        assert_eq!(folder.read("kept"), "mine", "{options}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_and_a_device_is_written_to() {
    let folder = Folder::with("in.json", CHAT);
    folder.write("real.json", "old");
    std::os::unix::fs::symlink("real.json", folder.path("link.json")).unwrap();
    assert_eq!(folder.run("compact in.json --budget 1000 -o link.json").status, 0);
    assert!(folder.path("link.json").is_symlink());
    assert_eq!(folder.read("real.json"), CHAT);
    assert_eq!(folder.run("compact in.json --budget 1000 -q -o /dev/stdout").stdout, CHAT);
}

#[test]
fn standard_output_has_not_one_byte_more() {
    let folder = Folder::with("in.json", CHAT);
    assert_eq!(folder.run("compact in.json --budget 1000").stdout, CHAT);
}

#[test]
fn a_conversation_that_fits_is_kept_in_the_archive_too() {
    let folder = Folder::with("in.json", CHAT);
    assert_eq!(folder.run("compact in.json --budget 1000 -q --archive kept").status, 0);
    assert_eq!(folder.names(), ["in.json", "kept"]);
    assert_eq!(folder.run("ls --archive kept --json").json().as_array().unwrap().len(), 1);
}

#[test]
fn a_report_that_cannot_be_written_leaves_the_window_alone() {
    let folder = Folder::with("in.json", CHAT);
    folder.write("out.json", "old");
    assert_eq!(
        folder.run("compact in.json --budget 1000 -o out.json --report no/such/folder.json").status,
        2
    );
    assert_eq!(folder.read("out.json"), "old");
}
