//! Any text is read or refused, and what is read prints to a text that reads back.

#![no_main]

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use libfuzzer_sys::fuzz_target;
use limiter_core::{Algorithm, Error, Policy, Quota};

/// The longest message: two excerpts of 80 characters, maybe escaped.
const LONGEST_MESSAGE: usize = 2_500;

fuzz_target!(|text: &str| {
    reads_back::<Quota>(text);
    reads_back::<Algorithm>(text);
    match Policy::parse("fuzz", text) {
        Ok(policy) => {
            let printed = policy.limits()[0].to_string();
            assert_eq!(Policy::parse("fuzz", &printed).expect("printed text reads back"), policy);
        }
        Err(error) => assert!(error.to_string().len() <= LONGEST_MESSAGE),
    }
});

fn reads_back<T>(text: &str)
where
    T: FromStr<Err = Error> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            assert_eq!(printed.parse::<T>().expect("printed text reads back"), value);
        }
        Err(error) => assert!(quotes(&error.to_string(), text), "{error}"),
    }
}

/// Returns whether a message quotes the text: as given, or with single spaces and keywords in lower
/// case.
fn quotes(message: &str, text: &str) -> bool {
    let message_in_lower_case = message.to_ascii_lowercase();
    let single_spaces = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_quoted = |text: &str| {
        let quoted = format!("{:?}", excerpt(text));
        message_in_lower_case.contains(&quoted.to_ascii_lowercase())
    };
    message.len() <= LONGEST_MESSAGE && (is_quoted(text.trim()) || is_quoted(&single_spaces))
}

/// Returns the text as a message quotes it.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
