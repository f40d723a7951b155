//! The engine under late, doubled, lost and failed answers, from a seed.

use longhand_core::{Effect, Engine, Event, FoldId, Rolling, State, Tokens};
use longhand_testkit::rng::Rng;

/// How many histories are played; `LONGHAND_SEEDS` asks for more.
#[expect(clippy::disallowed_methods, reason = "core itself reads no environment")]
fn seeds() -> u64 {
    std::env::var("LONGHAND_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(10_000)
}

#[test]
fn no_order_of_answers_breaks_the_engine() {
    for seed in 0..seeds() {
        let played = std::panic::catch_unwind(|| play(seed));
        assert!(played.is_ok(), "seed {seed} fails: play({seed}) repeats it");
    }
}

/// What the world is about to tell the engine.
struct World {
    rng: Rng,
    late: Vec<Event>,
    /// Answers that have been told, to be told again.
    told: Vec<Event>,
    open: Option<FoldId>,
    said_over: usize,
}

fn play(seed: u64) {
    let mut rng = Rng::new(seed);
    let settings = Rolling {
        rounds_max: rng.range(1..6),
        budget: Tokens(rng.range(20..400) as u64),
        summary_max: Tokens(rng.range(1..150) as u64),
        rungs: rng.range(0..4),
    };
    let undone = rng.chance(0.1);
    let mut engine = Engine::open(settings, State { undone, ..State::default() });
    let mut world = World { rng, late: Vec::new(), told: Vec::new(), open: None, said_over: 0 };
    let mut recorded = 0;
    for _ in 0..world.rng.range(1..60) {
        let before = engine.verbatim();
        match world.rng.range(0..10) {
            0..5 => {
                let tokens = Tokens(world.rng.range(1..120) as u64);
                world.said_over = 0;
                engine.handle(Event::Recorded { round: recorded, tokens });
                recorded += 1;
            }
            5 if world.rng.chance(0.3) => {
                world.said_over = 0;
                engine.handle(Event::Compact);
            }
            5 if recorded > 0 => {
                engine.handle(Event::Recorded { round: recorded - 1, tokens: Tokens(7) });
            }
            6 if !world.told.is_empty() => {
                let again = *world.rng.choose(&world.told);
                engine.handle(again);
            }
            _ if !world.late.is_empty() => {
                let at = world.rng.range(0..world.late.len());
                let event = world.late.swap_remove(at);
                world.told.push(event);
                engine.handle(event);
            }
            _ => {}
        }
        let after = engine.verbatim();
        assert!(after.start >= before.start, "what is folded stays folded");
        assert_eq!(after.end, recorded, "no round is lost or doubled");
        drain(&mut engine, &mut world, settings);
    }
    // In the end one more round comes, and every answer, and all of them are good.
    world.late.clear();
    world.said_over = 0;
    engine.handle(Event::Recorded { round: recorded, tokens: Tokens(1) });
    drain(&mut engine, &mut world, settings);
    for _ in 0..400 {
        if let Some(fold) = world.open {
            engine.handle(Event::Summarised { fold, tokens: Tokens(0) });
            engine.handle(Event::Committed { fold });
        }
        drain(&mut engine, &mut world, settings);
        if !engine.is_folding() {
            break;
        }
    }
    assert!(!engine.is_folding(), "it comes to rest");
    assert!(engine.tokens() <= settings.budget, "{} of {}", engine.tokens(), settings.budget);
    assert!(undone || engine.verbatim().count() <= settings.rounds_max);
}

/// Performs what the engine asks for: now, later, or never.
fn drain(engine: &mut Engine, world: &mut World, settings: Rolling) {
    let mut steps = 0;
    while let Some(effect) = engine.next_effect() {
        steps += 1;
        assert!(steps < 100, "it never spins");
        match effect {
            Effect::Summarise { fold, ref rounds, rung, limit } => {
                assert!(rung < settings.rungs.max(1), "only summarisers that exist are asked");
                assert!(limit <= settings.summary_max);
                assert_eq!(rounds.start, engine.verbatim().start, "the oldest rounds go first");
                assert!(
                    world
                        .open
                        .is_none_or(|open| open == fold || !engine.is_folding() || open.0 < fold.0)
                );
                world.open = Some(fold);
                answer(
                    world,
                    Event::Summarised { fold, tokens: Tokens(world_tokens(limit, rung)) },
                    Event::Refused { fold },
                );
            }
            Effect::Commit { fold, upto } => {
                assert_eq!(Some(fold), world.open, "never more than one fold at a time");
                assert!(upto <= engine.verbatim().end);
                answer(world, Event::Committed { fold }, Event::NotCommitted { fold });
            }
            Effect::OverBudget { by } => {
                assert!(by > Tokens::ZERO);
                world.said_over += 1;
                assert!(world.said_over <= 1, "a floor above the budget is reported once");
            }
        }
    }
}

fn world_tokens(limit: Tokens, rung: usize) -> u64 {
    limit.0 * (3 + rung as u64) / (4 + rung as u64)
}

fn answer(world: &mut World, good: Event, bad: Event) {
    let event = if world.rng.chance(0.7) { good } else { bad };
    match world.rng.range(0..6) {
        0 => {}
        1 => world.late.extend([event, event]),
        _ => world.late.push(event),
    }
}
