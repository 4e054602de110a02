//! Structured fields, read back by an independent parser.

use sfv::{BareItem, List, ListEntry, Parameters, Parser};

use crate::*;

/// A member of a list: its name and its integer parameters, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, i64)>,
}

impl Member {
    pub(crate) fn get(&self, parameter: &str) -> Option<i64> {
        self.parameters.iter().find(|(name, _)| name == parameter).map(|(_, value)| *value)
    }
}

pub(crate) fn member<const N: usize>(name: &str, parameters: [(&str, i64); N]) -> Member {
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).into();
    Member { name: name.to_owned(), parameters }
}

/// Returns the names and parameters of the members of a list field, of all its lines.
fn items(headers: &HeaderMap, field: &str) -> Vec<(String, Parameters)> {
    let lines = headers.get_all(field).iter().map(http::HeaderValue::as_bytes);
    let list: List = Parser::new(&lines.collect::<Vec<_>>().join(&b", "[..])).parse().unwrap();
    let item = |entry| {
        let ListEntry::Item(item) = entry else { panic!("an item: {entry:?}") };
        let BareItem::String(name) = item.bare_item else { panic!("a string: {item:?}") };
        (name.as_str().to_owned(), item.params)
    };
    list.into_iter().map(item).collect()
}

pub(crate) fn names(headers: &HeaderMap, field: &str) -> Vec<String> {
    items(headers, field).into_iter().map(|(name, _)| name).collect()
}

pub(crate) fn members(headers: &HeaderMap, field: &str) -> Vec<Member> {
    let member = |(name, parameters): (String, Parameters)| {
        let parameters = parameters.iter().map(|(key, value)| {
            let BareItem::Integer(value) = value else { panic!("an integer: {value:?}") };
            (key.as_str().to_owned(), (*value).into())
        });
        Member { name, parameters: parameters.collect() }
    };
    items(headers, field).into_iter().map(member).collect()
}
