//! Conversations that are not about code.

use serde_json::{Value, json};

use crate::rng::Rng;

/// A service desk for an airline: bookings are looked up and changed by calls.
pub fn service_session(seed: u64, customers: usize) -> Value {
    let mut rng = Rng::new(seed);
    let mut messages =
        vec![json!({"role": "system", "content": "You help customers of an airline."})];
    for number in 0..customers {
        let booking = format!("R-{}", 1_000 + rng.range(0..9_000));
        let (fare, fee) = (rng.range(80..400), rng.range(10..60));
        let gift = format!("gift_card_{}", 100_000 + rng.range(0..900_000));
        let mut call = |step: &str, name: &str, arguments: Value, answer: Value| {
            let id = format!("call_{number}_{step}");
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let calls = json!([{"id": id, "type": "function", "function": function}]);
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
            messages
                .push(json!({"role": "tool", "tool_call_id": id, "content": answer.to_string()}));
        };
        let ask = format!("Please move my booking {booking} to Friday. I never fly before noon.");
        let flights: Vec<Value> = (0..40)
            .map(|at| json!({"flight": format!("LH{}", 200 + at), "leaves": format!("{:02}:15", at % 24), "seats": at}))
            .collect();
        call(
            "look",
            "get_booking",
            json!({"booking_id": booking}),
            json!({"fare": fare, "flights": flights}),
        );
        let change = json!({"booking_id": booking, "day": "Friday", "payment": gift});
        call("move", "update_booking", change, json!({"status": "moved", "charged": fee}));
        let start = messages.len() - 4;
        messages.insert(start, json!({"role": "user", "content": ask}));
        let done = format!(
            "{booking} is moved to Friday at 13:15. The fee of ${fee} was paid with {gift}."
        );
        messages.push(json!({"role": "assistant", "content": done}));
    }
    json!({"messages": messages})
}

/// A chat in which a user says a little about themselves and asks for this and that.
pub fn chat_session(seed: u64, rounds: usize) -> Value {
    const ABOUT: &[&str] = &[
        "I am allergic to nuts.",
        "My daughter Ida turns seven on 12 May.",
        "I live in Lund and do not drive.",
        "Please call me Sam.",
    ];
    const ASKS: &[&str] = &[
        "Write four lines on rain.",
        "What goes well with beetroot?",
        "How do I keep basil alive in winter?",
        "Suggest a walk for Sunday.",
        "Which book should I read next?",
    ];
    let mut rng = Rng::new(seed);
    let mut messages = Vec::new();
    for round in 0..rounds {
        let about = ABOUT.get(round).map_or(String::new(), |about| format!("{about} "));
        let ask = rng.choose(ASKS);
        let words = crate::filler::words(60, seed + round as u64);
        messages.push(json!({"role": "user", "content": format!("{about}{ask} ({round})")}));
        messages.push(json!({"role": "assistant", "content": format!("Here is idea {round}. It goes: {words}.")}));
    }
    json!({"messages": messages})
}
