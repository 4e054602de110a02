//! Structured fields, read back by an independent parser.

use http::HeaderMap;
use sfv::{BareItem, List, ListEntry, Parser};

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

/// Returns the members of a list field, of all its lines.
pub(crate) fn members(headers: &HeaderMap, field: &str) -> Vec<Member> {
    let lines = headers.get_all(field).iter().map(http::HeaderValue::as_bytes);
    let list: List = Parser::new(&lines.collect::<Vec<_>>().join(&b", "[..])).parse().unwrap();
    let member = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("an item: {entry:?}") };
        let BareItem::String(name) = &item.bare_item else { panic!("a string: {item:?}") };
        let parameters = item.params.iter().map(|(key, value)| {
            let BareItem::Integer(value) = value else { panic!("an integer: {item:?}") };
            (key.as_str().to_owned(), (*value).into())
        });
        Member { name: name.as_str().to_owned(), parameters: parameters.collect() }
    };
    list.iter().map(member).collect()
}
