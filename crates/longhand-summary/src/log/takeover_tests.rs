//! What somebody who takes over is told: documents, edits, failures, sub-agents.

use super::*;

const ISSUE: &str = "TW-9 Move the wheel to its own crate, so that the other services can use it as well.\n\n\
    ## No-gos\n- a second timer\n- new dependencies\n\n## Acceptance\n- All tests of the old place pass in the new one.\n\
    - The slot count stays at 512.\n\n## Notes\nThe wheel was written in 2019 and has been moved twice since then.\n";

#[test]
fn what_the_user_pointed_to_stands_with_its_orders() {
    let mut messages = vec![user("Please do TW-9.")];
    messages.extend(tool(1, "Bash", r#"{"command":"tracker show TW-9"}"#, ISSUE));
    for n in 0..40 {
        messages.extend(tool(9 + n, "Read", r#"{"file_path":"src/a.rs"}"#, "fn turn() {}"));
    }
    let told = text(&messages, 260);
    let document = told.split("From documents:\n- tracker show TW-9\n").nth(1).unwrap_or_default();
    for line in ["# No-gos\n", "  a second timer\n", "  new dependencies\n", "stays at 512"] {
        assert!(document.contains(line), "{line}: {told}");
    }
}

#[test]
fn a_plan_counts_once_the_user_has_approved_it() {
    let plan = format!("{{\"plan\":{}}}", longhand_core::json::quote(ISSUE));
    let told = |answer: &str| {
        let mut messages = vec![user("Plan it.")];
        messages.extend(tool(1, "submit_plan", &plan, answer));
        text(&messages, 400)
    };
    assert!(told("User has approved your plan.").contains("- the plan\n"));
    let refused =
        told("The user doesn't want to proceed with this tool use. the user said:\nno timer");
    assert!(
        !refused.contains("- the plan\n") && refused.contains("refused: \"no timer\""),
        "{refused}"
    );
}

#[test]
fn an_edit_is_told_by_the_function_and_the_line_that_it_changed() {
    let edit = |old: &str, new: &str| {
        let (old, new) = (longhand_core::json::quote(old), longhand_core::json::quote(new));
        format!(r#"{{"file_path":"src/wheel.rs","old_string":{old},"new_string":{new}}}"#)
    };
    let mut messages = vec![user("Fix the wheel.")];
    let first = edit("fn drain() {\n}", "fn drain() {\n    cascade_first(slots, deadline);\n}");
    messages.extend(tool(1, "Edit", &first, "ok"));
    let told = text(&messages, 400);
    assert!(
        told.contains("- src/wheel.rs\n  # fn drain() {\n  + cascade_first(slots, deadline);"),
        "{told}"
    );
    // What a later edit took out is not there any more, also if that edit is in sight.
    let second = edit("    cascade_first(slots, deadline);", "    cascade_last(slots, deadline);");
    let told = page(&log_of(&messages), &tool(2, "Edit", &second, "ok"), 400).text;
    assert!(!told.contains("cascade_first"), "{told}");
}

#[test]
fn a_file_that_is_read_is_told_by_its_definitions_and_not_by_their_steps() {
    let file = "  1→const SLOTS = 512;\n  2→function turn(wheel) {\n  3→\tconst slot = wheel.next();\n\
        4→    const other = slot + 1;\n  5→}\n";
    let mut messages = vec![user("Look at the wheel.")];
    messages.extend(tool(1, "Read", r#"{"file_path":"src/wheel.js"}"#, file));
    let told = text(&messages, 400);
    assert!(told.contains("  const SLOTS = 512;\n  function turn(wheel) {"), "{told}");
    assert!(!told.contains("const slot") && !told.contains("const other"), "{told}");
}

#[test]
fn what_is_gone_or_passed_in_another_spelling_has_not_failed() {
    let run = |n: usize, command: &str, answer: &str| {
        tool(n, "Bash", &format!(r#"{{"command":"{command}"}}"#), answer)
    };
    let mut messages = vec![user("Test it.")];
    messages.extend(run(1, "npx vitest run test/wheel.test.ts", "1 failed, 3 passed"));
    messages.extend(tool(2, "Write", r#"{"file_path":"scratch/try.py","content":"x"}"#, "ok"));
    messages.extend(run(3, "python scratch/try.py", "Traceback\nKeyError: 'slot'"));
    let log = log_of(&messages);
    let told = page(&log, &[], 400).text;
    assert!(told.contains("KeyError") && told.contains("scratch/try.py new"), "{told}");
    let mut after = run(4, "vitest run", "9 passed").to_vec();
    after.extend(run(5, "rm -rf scratch", ""));
    let told = page(&log, &after, 400).text;
    assert!(!told.contains("KeyError") && told.contains("scratch/try.py deleted"), "{told}");
    assert!(told.contains("1 failed, 3 passed (all passed since)"), "{told}");
}

#[test]
fn a_wider_filter_of_tests_repairs_a_narrow_one() {
    let run = |n: usize, filter: &str, answer: &str| {
        tool(n, "Bash", &format!(r#"{{"command":"go test -run {filter}"}}"#), answer)
    };
    let mut messages = vec![user("Test it.")];
    messages.extend(run(1, "TestWheel_Turns", "--- FAIL: TestWheel_Turns\nFAIL\nexit status 1"));
    messages.extend(run(2, "TestLease_Ends", "--- FAIL: TestLease_Ends\nFAIL\nexit status 1"));
    messages.extend(run(3, "TestWheel", "ok example.com/wheel 3.364s"));
    let told = page(&log_of(&messages), &[], 400).text;
    let failed = told.split("repaired since:").nth(1).unwrap_or_default();
    assert!(failed.contains("TestLease_Ends") && !failed.contains("TestWheel_Turns"), "{told}");
}

#[test]
fn what_a_client_cleared_is_not_told() {
    let mut messages = vec![user("Look at it.")];
    messages.extend(tool(
        1,
        "Bash",
        r#"{"command":"git show 8312232"}"#,
        "[Old tool result content cleared]",
    ));
    let told = page(&log_of(&messages), &[], 400).text;
    assert!(!told.contains("cleared"), "{told}");
}

#[test]
fn a_background_task_is_told_by_its_command_and_its_end() {
    let mut messages = vec![user("Build it.")];
    messages.extend(tool(
        1,
        "Bash",
        r#"{"command":"make all","run_in_background":true}"#,
        "Command running in background with ID: b7f. Output is being written to a file.",
    ));
    let log = log_of(&messages);
    let told = page(&log, &[], 300).text;
    assert!(told.contains("Background tasks:\n- b7f: make all: running"), "{told}");
    let ended = user(
        "<task-notification><task-id>b7f</task-id><status>completed</status>\
         <summary>done (exit code 2)</summary></task-notification>",
    );
    let told = page(&log, &[ended], 300).text;
    assert!(told.contains("- b7f: make all: completed, exit code 2"), "{told}");
}

#[test]
fn a_sub_agents_report_begins_after_its_preamble() {
    let mut messages = vec![user("Look for leaks.")];
    let report = "Perfect! Now I have all the information. Let me compile it.\n\nThe pool leaks, because `drop` is never called.";
    messages.extend(tool(1, "Task", r#"{"description":"leaks","subagent_type":"x"}"#, report));
    let told = text(&messages, 300);
    assert!(told.contains("- leaks: The pool leaks, because"), "{told}");
}

#[test]
fn lines_that_come_back_in_a_block_are_carried_on() {
    let mut messages = vec![user("Please do TW-9.")];
    messages.extend(tool(1, "Bash", r#"{"command":"tracker show TW-9"}"#, ISSUE));
    messages.extend(tool(2, "Read", r#"{"file_path":"src/a.rs"}"#, "fn turn_the_wheel() {}"));
    let block = text(&messages, 500);
    let mut log = Log::default();
    log.carry(&block);
    let told = page(&log, &[], 500).text;
    for line in ["  a second timer", "- src/a.rs\n  fn turn_the_wheel() {}"] {
        assert!(block.contains(line) && told.contains(line), "{line}: {told}");
    }
}

#[test]
fn a_sub_agent_that_did_not_begin_has_failed() {
    let task = r#"{"description":"leaks","subagent_type":"x"}"#;
    let mut messages = vec![user("Look for leaks.")];
    let refused = "<tool_use_error>InputValidationError: Task failed due to the following issue:\nThe prompt is missing</tool_use_error>";
    messages.extend(tool(1, "Task", task, refused));
    messages.push(assistant("On we go."));
    let told = text(&messages, 300);
    assert!(told.contains("- `sub-agent leaks`: InputValidationError: Task failed"), "{told}");
    assert!(!told.contains("Sub-agents reported"), "{told}");
    messages.extend(tool(2, "Task", task, "[Request interrupted by user for tool use]"));
    assert!(!text(&messages, 300).contains("Sub-agents reported"));
    let report = "Error handling is fine, but the pool leaks, because `drop` is never called.";
    messages.extend(tool(3, "Task", task, report));
    let told = text(&messages, 300);
    assert!(!told.contains("InputValidationError") && told.contains("the pool leaks"), "{told}");
}

#[test]
fn a_hook_that_failed_is_a_failure_until_the_command_passes() {
    let commit = r#"{"command":"git commit -m 'move it'"}"#;
    let mut messages = vec![user("Commit it.")];
    let refused = "Pre-commit validation failed:\n\nCode is not formatted.\nFix these issues before committing.";
    messages.extend(tool(1, "Bash", commit, refused));
    let told = text(&messages, 300);
    assert!(told.contains("Failed, not repaired since:\n- `git commit"), "{told}");
    messages.extend(tool(2, "Bash", commit, "[main 1a2b3c4] move it"));
    let told = text(&messages, 300);
    assert!(!told.contains("validation failed"), "{told}");
}

#[test]
fn a_commit_that_was_made_ends_the_tries_before_it() {
    let run = |command: &str| format!(r#"{{"command":"{command}"}}"#);
    let mut messages = vec![user("Commit it, then push it.")];
    let ignored = "The following paths are ignored by one of your .gitignore files:\nerror: nothing was added";
    let refused = "Pre-commit validation failed:\n\nCode is not formatted.";
    let rejected = "error: failed to push some refs";
    messages.extend(tool(1, "Bash", &run("git add lib site.css"), ignored));
    messages.extend(tool(2, "Bash", &run("git add lib && git commit -m 'one try'"), refused));
    messages.extend(tool(3, "Bash", &run("git push"), rejected));
    let told = text(&messages, 300);
    assert!(
        told.contains("- `git add lib && git commit") && told.contains("- `git push`"),
        "{told}"
    );
    messages.extend(tool(4, "Bash", &run("git commit -m 'another'"), "[main 1a2b3c4] another"));
    let told = text(&messages, 300);
    let failed = told.split("repaired since:").nth(1).unwrap_or_default();
    assert!(failed.starts_with("\n- `git push`") && !failed.contains("git commit"), "{told}");
}

#[test]
fn what_an_agent_that_acts_in_text_read_and_changed_is_told() {
    let shown = |body: &str| {
        user(&format!(
            "[File: /repo/src/add.py (3 lines total)]\n{body}\n(Open file: /repo/src/add.py)\n(Current directory: /repo)\nbash-$"
        ))
    };
    let messages = [
        user("Fix the bug in add."),
        assistant("I look first.\n```\nopen src/add.py\n```"),
        shown("1:def add_numbers(a, b):\n2:  return a - b\n3:# end"),
        assistant(
            "The sign is wrong.\n```\nedit 2:2\n  return sum_of(first, second)\nend_of_edit\n```",
        ),
        shown("1:def add_numbers(a, b):\n2:  return sum_of(first, second)\n3:# end"),
    ];
    let told = text(&messages, 400);
    assert!(told.contains("def add_numbers(a, b):"), "{told}");
    assert!(told.contains("  + return sum_of(first, second)"), "{told}");
    assert!(!told.contains("  (Current directory"), "{told}");
}

#[test]
fn a_record_is_told_once() {
    let mut messages = vec![user("Where is my order?")];
    messages.extend(tool(
        1,
        "get_order",
        r#"{"id":"W-77"}"#,
        r#"{"order_id":"W-77","status":"shipped on Monday","total":52}"#,
    ));
    messages.push(assistant("It is on its way."));
    let told = text(&messages, 400);
    assert_eq!(told.matches("shipped on Monday").count(), 1, "{told}");
}

#[test]
fn a_patch_of_several_files_is_told_by_file() {
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n+    turn_the_first_wheel(slots, deadline);\n\
        *** Update File: src/b.rs\n+    drain_the_second_queue(jobs, deadline);\n*** End Patch";
    let arguments = format!("{{\"input\":{}}}", longhand_core::json::quote(patch));
    let mut messages = vec![user("Fix both.")];
    messages.extend(tool(1, "apply_patch", &arguments, "Done!"));
    let told = text(&messages, 400);
    assert!(told.contains("- src/a.rs\n  + turn_the_first_wheel(slots, deadline);\n"), "{told}");
    assert!(told.contains("- src/b.rs\n  + drain_the_second_queue(jobs, deadline);"), "{told}");
}

#[test]
fn a_model_replaces_our_lines_only_where_it_keeps_every_name() {
    let mut log = log_of(&[
        user("Fix the wheel."),
        assistant("The cascade of `drain_slots` runs first now, since 512 slots were late."),
        user("And the leases."),
        assistant("The sweep checks the generation of a lease before it takes it away."),
    ]);
    log.tell(2, "The wheel and the leases were mended.");
    let told = page(&log, &[], 400).text;
    assert!(told.contains("The wheel and the leases were mended."), "{told}");
    assert!(told.contains("- 1: The cascade of `drain_slots` runs first now"), "{told}");
    assert!(!told.contains("The sweep checks"), "{told}");
    log.tell(2, "`drain_slots` cascades first, because 512 slots were late; leases were mended.");
    let told = page(&log, &[], 400).text;
    assert!(!told.contains("runs first now"), "{told}");
}

#[test]
fn a_task_list_that_is_kept_item_by_item_is_told_whole() {
    let add = |n: usize, subject: &str| {
        let arguments = format!(r#"{{"subject":"{subject}","activeForm":"doing"}}"#);
        tool(n, "TaskCreate", &arguments, &format!("Task #{n} created successfully: {subject}"))
    };
    let mark = |n: usize, id: &str, status: &str| {
        let arguments = format!(r#"{{"taskId":"{id}","status":"{status}"}}"#);
        tool(n, "TaskUpdate", &arguments, &format!("Updated task #{id} status"))
    };
    let mut messages = vec![user("Move the wheel.")];
    messages.extend(add(1, "move the code"));
    messages.extend(add(2, "change the callers"));
    messages.extend(mark(3, "1", "completed"));
    let log = log_of(&messages);
    let told = page(&log, &mark(4, "2", "in_progress"), 300).text;
    let list = "Task list as last written:\n- [x] #1 move the code\n- [>] #2 change the callers";
    assert!(told.contains(list), "{told}");
    assert!(!told.contains("Updated task") && !told.contains("created successfully"), "{told}");
}

#[test]
fn the_text_of_an_issue_that_comes_as_json_is_a_document() {
    let issue = format!(r#"{{"title":"Move it","body":{}}}"#, longhand_core::json::quote(ISSUE));
    let mut messages = vec![user("Please do issue 31.")];
    messages.extend(tool(1, "Bash", r#"{"command":"gh issue view 31 --json title,body"}"#, &issue));
    let told = text(&messages, 400);
    assert!(told.contains("From documents:\n- gh issue view 31 --json title,body\n"), "{told}");
    assert!(told.contains("  # No-gos\n  a second timer\n"), "{told}");
}

#[test]
fn an_output_that_only_says_that_a_tool_ran_is_not_told() {
    let mut messages = vec![user("Debug it.")];
    messages.extend(tool(
        1,
        "Skill",
        r#"{"skill":"systematic:debugging"}"#,
        "Launching skill: systematic:debugging",
    ));
    messages.extend(tool(2, "Bash", r#"{"command":"cat VERSION"}"#, "0.8.4-rc2 of the wheel"));
    let told = text(&messages, 300);
    assert!(!told.contains("Launching") && told.contains("0.8.4-rc2"), "{told}");
}

#[test]
fn what_a_client_writes_below_a_report_is_no_finding() {
    let report = "The wheel fails, because `drain` runs before `cascade`.\n\
        agentId: a1 (for resuming to continue this agent's work if needed)\n<usage>total_tokens: 33894\ntool_uses: 9</usage>";
    let call = r#"{"description":"Look at the wheel","prompt":"x","subagent_type":"y"}"#;
    let mut messages = vec![user("Why is it late?")];
    messages.extend(tool(1, "Task", call, report));
    let told = text(&messages, 400);
    assert!(told.contains("because `drain` runs before `cascade`."), "{told}");
    assert!(!told.contains("agentId") && !told.contains("tool_uses"), "{told}");
}

#[test]
fn a_file_has_one_list_of_lines_however_its_path_is_written() {
    let edit = |path: &str, new: &str| {
        format!(r#"{{"file_path":"{path}","old_string":"x","new_string":"{new}"}}"#)
    };
    let mut messages = vec![user("Fix the wheel.")];
    let first = edit("/src/wheel/turn.rs", "first_slot = deadline + grace_period;");
    let second = edit("wheel/turn.rs", "second_slot = deadline - grace_period;");
    messages.extend(tool(1, "Edit", &first, "ok"));
    messages.extend(tool(2, "Edit", &second, "ok"));
    let told = text(&messages, 400);
    assert_eq!(told.matches("turn.rs\n").count(), 1, "{told}");
    // Once it is deleted, nothing of it is told.
    messages.extend(tool(3, "Bash", r#"{"command":"rm wheel/turn.rs"}"#, ""));
    let told = text(&messages, 400);
    assert!(!told.contains("+ first_slot") && !told.contains("+ second_slot"), "{told}");
}
