//! Any text is read or refused, and what is read prints to a text that reads back.

#![no_main]

use std::{fmt::Display, str::FromStr};

use libfuzzer_sys::fuzz_target;
use limiter_core::{Error, Kind, Policy, Quota};

fuzz_target!(|text: &str| {
    reads_back::<Quota>(text);
    reads_back::<Kind>(text);
    if let Ok(policy) = Policy::parse("fuzz", text) {
        let printed = policy.limits()[0].to_string();
        assert_eq!(Policy::parse("fuzz", &printed).expect("what was printed reads back"), policy);
    }
});

fn reads_back<T>(text: &str)
where
    T: FromStr<Err = Error> + Display + PartialEq + std::fmt::Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            assert_eq!(printed.parse::<T>().expect("what was printed reads back"), value);
        }
        Err(error) => assert!(error.to_string().contains(&format!("{:?}", text.trim()))),
    }
}
