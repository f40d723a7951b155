//! Real agent sessions, when they are there.
use std::path::PathBuf;

use crate::common::{POLICIES, check_contract, compact, count, graves, o200k, parse};
use longhand_core::{Budget, PlanSettings, Tokens};

/// The folder of recorded sessions: `LONGHAND_SHARED`, or `shared` beside the project.
fn shared() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("LONGHAND_SHARED").map_or(beside, PathBuf::from);
    folder.join("data").is_dir().then(|| folder.join("data"))
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let Some(shared) = shared() else {
        println!("no recorded sessions here: nothing to check");
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut folders = vec![shared.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending)
                && !path.ends_with("MANIFEST.json")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Runs every policy at half and a quarter of a session's size.
fn check(json: &str, name: &str) {
    let before = parse(json, None);
    assert_eq!(graves(&before), Vec::<String>::new(), "{name}");
    assert_eq!(before.apply(&[]), json, "{name}");
    let whole = count(&before, o200k());
    for policy in POLICIES {
        for percent in [25, 50] {
            let budget = Budget::of(Tokens(whole.0 * percent / 100));
            let settings = PlanSettings { policy, ..PlanSettings::default() };
            let made = compact(json, None, &budget, &settings, o200k());
            check_contract(&made, &budget, &settings, o200k());
            println!("{name} {policy:?} {percent}%: {}", made.plan);
        }
    }
}

#[test]
fn every_trace_fits_or_reports_its_floor() {
    for path in files("traces", "json") {
        check(&std::fs::read_to_string(&path).unwrap(), &path.display().to_string());
    }
}

#[test]
fn every_session_file_fits_or_reports_its_floor() {
    for path in files("formats", "jsonl") {
        if path.to_string_lossy().contains("copilot") {
            continue;
        }
        check(&std::fs::read_to_string(&path).unwrap(), &path.display().to_string());
    }
}

#[test]
fn counts_are_those_of_the_manifest() {
    let Some(shared) = shared() else {
        return println!("no recorded sessions here: nothing to check");
    };
    let manifest: serde_json::Value = serde_json::from_str(
        &std::fs::read_to_string(shared.join("traces/MANIFEST.json")).unwrap(),
    )
    .unwrap();
    for entry in manifest.as_array().unwrap() {
        let file = entry["file"].as_str().unwrap();
        let conversation = parse(&std::fs::read_to_string(shared.join(file)).unwrap(), None);
        // The manifest leaves out the priming of the reply.
        assert_eq!(
            count(&conversation, o200k()).0,
            entry["o200k_tokens"].as_u64().unwrap() + 3,
            "{file}"
        );
        assert_eq!(
            conversation.messages.len() as u64,
            entry["messages"].as_u64().unwrap(),
            "{file}"
        );
    }
}

#[test]
fn auto_always_fits_the_traces() {
    for path in files("traces", "json") {
        let json = std::fs::read_to_string(&path).unwrap();
        let whole = count(&parse(&json, None), o200k());
        for percent in [25, 50] {
            let budget = Budget::of(Tokens(whole.0 * percent / 100));
            let made = compact(&json, None, &budget, &PlanSettings::default(), o200k());
            let floor = made.plan.floor;
            assert!(made.plan.fits() || floor > budget.limit, "{}: {}", path.display(), made.plan);
            if !made.plan.fits() {
                println!("{} at {percent}%: floor {floor} of {}", path.display(), budget.limit);
            }
        }
    }
}
