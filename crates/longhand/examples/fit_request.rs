//! One request made to fit, without an archive, and what it left out brought back.
//!
//! `cargo run -p longhand --example fit_request`

use longhand::{Tokens, expand, fit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let request = include_str!("../../../examples/long-session.json");
    let window = fit(request, Tokens(8_000))?;
    println!("{} bytes became {} ({} tokens)", request.len(), window.json.len(), window.tokens);
    assert!(window.tokens <= Tokens(8_000));
    assert_eq!(window.shortfall, Tokens::ZERO);

    // A stub in the window names what it stands for by a handle.
    let start = window.json.find("[longhand stub ").ok_or("nothing was left out")?;
    let handle = &window.json[start + 15..start + 29];
    let original = expand(request, handle)?.ok_or("the request has what the window left out")?;
    println!("{handle} stands for:\n{original}");
    assert!(request.len() > original.len() && original.len() > 100);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
