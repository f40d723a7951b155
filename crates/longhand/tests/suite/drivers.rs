//! The laws of windows on every driver: a file by itself, a file in an archive, a session.
use std::sync::Arc;

use longhand::driver::{Admitted, Summarised, WindowRequest};
use longhand::{
    Archive, Extractive, MemoryArchive, Miner, Owner, Prompt, Round, Session, SessionSettings,
    Tokens, recall,
};
use longhand_archive::{Page, Scope};
use longhand_core::{Budget, Handle, Meter};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::arbitrary::{GrowingRequest, cases, turns};
use longhand_testkit::rng::Rng;
use longhand_testkit::{WireFormat, validate};
use proptest::prelude::*;

fn meter() -> Arc<dyn Meter> {
    static METER: std::sync::OnceLock<Arc<dyn Meter>> = std::sync::OnceLock::new();
    let open = || Arc::from(MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap());
    Arc::clone(METER.get_or_init(open))
}

fn dialect_of(wire: WireFormat) -> Dialect {
    match wire {
        WireFormat::Chat => Dialect::Chat,
        WireFormat::Responses => Dialect::Responses,
        WireFormat::Anthropic => Dialect::Anthropic,
    }
}

fn parse(wire: WireFormat, json: &str) -> Conversation {
    let mut conversation = read(json.as_bytes().to_vec(), Some(dialect_of(wire))).unwrap();
    conversation.keep_thinking();
    conversation
}

/// Makes a window of an admitted conversation, down to 40% once it is full.
fn window(admitted: &mut Admitted, limit: u64) -> longhand::driver::Fitted {
    let meter = meter();
    let digest = Summarised::new(vec![Arc::new(Extractive)], Arc::clone(&meter), Miner::default());
    let digest = digest.keeping_state();
    let budget = Budget::of(Tokens(limit)).with_low_water(40, Tokens::ZERO);
    admitted
        .window(&WindowRequest {
            budget,
            settings: longhand_core::PlanSettings::default(),
            meter: &*meter,
            digest: &digest,
            fixed: Tokens::ZERO,
            summary: &|| (None, Vec::new()),
            now_ms: 0,
        })
        .unwrap()
}

/// All handles that a text shows in marks of ours.
fn handles(text: &str) -> Vec<Handle> {
    let marks = text.match_indices("[longhand ").filter_map(|(at, _)| {
        let rest = &text[at..];
        let handle = rest.find("h:").filter(|at| *at < 20)?;
        Handle::parse(rest.get(handle..handle + 14)?)
    });
    marks.collect()
}

fn blocks(text: &str) -> usize {
    text.matches("[longhand fold ").count()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..cases(64) })]

    /// A file that no archive keeps: every handle opens from the file that the window was made from.
    #[test]
    fn every_handle_of_a_window_opens_from_its_file(
        wire in prop::sample::select(WireFormat::ALL.to_vec()),
        seed in any::<u64>(),
        turns in 2..40usize,
        limit in 300..6_000u64,
    ) {
        let mut rng = Rng::new(seed);
        let mut request = GrowingRequest::new(wire, longhand_testkit::arbitrary::PieceSize::Light, seed);
        (0..turns).for_each(|_| request.append(&mut rng));
        let json = request.json();
        let original = parse(wire, &json);
        let fitted = window(&mut Admitted::alone(parse(wire, &json)), limit);
        prop_assert_eq!(validate(wire, &fitted.text), Vec::<String>::new());
        for edit in &fitted.plan.batch.edits {
            let handle = edit.handle().unwrap();
            let opened = recall::open_from(&original, handle);
            let expected = longhand_core::original(&original.path(), edit);
            // Arguments and a result with the same text share a handle, and a text has no form.
            let text = |original: &Option<longhand_core::Original>| {
                original.as_ref().map(|original| original.as_str().to_owned())
            };
            prop_assert_eq!(text(&opened), text(&expected), "{}", handle);
        }
    }

    /// A file that is admitted to an archive again and again while it grows.
    #[test]
    fn a_growing_file_in_an_archive_keeps_its_windows(
        (wire, mut request) in grower(),
        seed in any::<u64>(),
        limit in 400..5_000u64,
    ) {
        let mut rng = Rng::new(seed);
        let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
        let mut last: Option<(Vec<serde_json::Value>, usize)> = None;
        for _ in 0..30 {
            request.append(&mut rng);
            let json = request.json();
            let admitted = Admitted::archived(
                Arc::clone(&archive), Owner::LOCAL, parse(wire, &json), "file", 0,
            );
            let mut admitted = admitted.unwrap();
            let fitted = window(&mut admitted, limit);
            let found = validate(wire, &fitted.text);
            prop_assert_eq!(found, Vec::<String>::new(), "{}", fitted.text);
            prop_assert!(blocks(&fitted.text) <= 1);
            let (session, _) = admitted.session().unwrap();
            for handle in handles(&fitted.text) {
                let opened = recall::open(&*archive, &Scope::Session(session), handle).unwrap();
                prop_assert!(opened.is_some(), "{} does not open", handle);
            }
            // Without a new batch the window only grows at its end.
            let shown = messages(wire, &fitted.text);
            if let Some((before, batches)) = &last && *batches == fitted.live.len() {
                // The last turn may be joined by what comes next.
                let sure = before.len().saturating_sub(1);
                prop_assert_eq!(&shown[..sure], &before[..sure]);
            }
            last = Some((shown, fitted.live.len()));
        }
        let sessions = archive.sessions(None, Page::ALL).unwrap().items;
        prop_assert_eq!(sessions.len(), 1, "one conversation is one session");
        prop_assert!(archive.verify(None).unwrap().is_empty());
    }

    /// A session: rounds are recorded and windows asked for in every format.
    #[test]
    fn a_session_keeps_its_windows(seed in any::<u64>(), limit in 500..5_000u64) {
        let mut rng = Rng::new(seed);
        let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
        let settings =
            SessionSettings { budget: Tokens(limit), meter: meter(), ..SessionSettings::new().unwrap() };
        let mut session = Session::open_with(Arc::clone(&archive), "s", settings.clone()).unwrap();
        let mut other = Session::open_with(Arc::clone(&archive), "other", settings).unwrap();
        other.record(&Round::new("Keep this.", "Kept.", 0)).unwrap();
        let before = other.window("now", &Prompt::default(), 0).unwrap().json;
        for number in 0..30 {
            session.record(&round(number, &mut rng)).unwrap();
            for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
                let prompt = Prompt { dialect, base: "Be brief.".into(), ..Prompt::default() };
                let window = session.window("What is next?", &prompt, 0).unwrap();
                let wire = match dialect {
                    Dialect::Responses => WireFormat::Responses,
                    Dialect::Anthropic => WireFormat::Anthropic,
                    _ => WireFormat::Chat,
                };
                prop_assert_eq!(validate(wire, &window.json), Vec::<String>::new(), "{}", window.json);
                prop_assert!(window.tokens <= Tokens(limit) || window.shortfall > Tokens::ZERO);
                prop_assert!(blocks(&window.json) <= 1);
                for handle in handles(&window.json) {
                    let scope = Scope::Session(session.id());
                    let opened = recall::open(&*archive, &scope, handle).unwrap();
                    prop_assert!(opened.is_some(), "{} does not open", handle);
                }
            }
        }
        prop_assert_eq!(other.window("now", &Prompt::default(), 0).unwrap().json, before);
    }
}

fn grower() -> impl Strategy<Value = (WireFormat, GrowingRequest)> {
    prop_oneof![
        turns(WireFormat::Chat).prop_map(|request| (WireFormat::Chat, request)),
        turns(WireFormat::Responses).prop_map(|request| (WireFormat::Responses, request)),
        turns(WireFormat::Anthropic).prop_map(|request| (WireFormat::Anthropic, request)),
    ]
}

/// The messages of a request, but for marks that a client moves.
fn messages(wire: WireFormat, json: &str) -> Vec<serde_json::Value> {
    let document: serde_json::Value = serde_json::from_str(json).unwrap();
    let field = if wire == WireFormat::Responses { "input" } else { "messages" };
    let list = document.as_array().or(document[field].as_array()).cloned().unwrap_or_default();
    list.into_iter().map(unmarked).collect()
}

fn unmarked(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Array(list) => list.into_iter().map(unmarked).collect(),
        Value::Object(mut fields) => {
            fields.remove("cache_control");
            fields.into_iter().map(|(key, value)| (key, unmarked(value))).collect()
        }
        other => other,
    }
}

fn round(number: u64, rng: &mut Rng) -> Round {
    use longhand_testkit::filler;
    let user = format!("Question {number}: {}", filler::words(rng.range(3..60), rng.next_u64()));
    if !number.is_multiple_of(3) {
        return Round::new(&user, &filler::words(rng.range(1..200), rng.next_u64()), 0);
    }
    let id = format!("call_{number}");
    let body = filler::words(rng.range(1..900), rng.next_u64());
    let line = serde_json::json!({"messages": [
        {"role": "user", "content": user},
        {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": "read", "arguments": format!("{{\"path\":\"f{number}\"}}")}}]},
        {"role": "tool", "tool_call_id": id, "content": body},
        {"role": "assistant", "content": "It is fine."},
    ]});
    Round::parse(&line.to_string(), 0).unwrap()
}
