//! Sorted sets.

use super::{either, integer, range, syntax};
use crate::{
    keyspace::{Keyspace, SortedSet},
    number,
    reply::Reply,
    version::Version,
};

/// `ZADD key score member [score member ...]`.
pub(crate) fn zadd(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, pairs @ ..] = arguments else { return Reply::Nil };
    let (pairs, []) = pairs.as_chunks::<2>() else { return syntax() };
    let scores: Option<Vec<f64>> = pairs.iter().map(|[score, _]| number::score(score)).collect();
    let Some(scores) = scores else { return Reply::error("ERR value is not a valid float") };
    let add = |set: &mut SortedSet| {
        let before = set.len();
        for ([_, member], score) in pairs.iter().zip(scores) {
            set.insert(member.to_vec(), score);
        }
        Reply::count(set.len() - before)
    };
    space.change(key, add).into()
}

pub(crate) fn zcard(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    space.read(key, |set: &SortedSet| Reply::count(set.len())).into()
}

pub(crate) fn zcount(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, least, most, ..] = arguments else { return Reply::Nil };
    let Some(bounds) = Bounds::of(least, most) else { return not_a_range() };
    let count = |set: &SortedSet| set.values().filter(|score| bounds.contain(**score)).count();
    space.read(key, |set| Reply::count(count(set))).into()
}

pub(crate) fn zmscore(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, members @ ..] = arguments else { return Reply::Nil };
    let version = space.version;
    let scores =
        |set: &SortedSet| members.iter().map(|member| score(set, member, version)).collect();
    space.read(key, |set| Reply::Array(scores(set))).into()
}

/// `ZRANGE key start stop [WITHSCORES]`, by places.
pub(crate) fn zrange(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, start, stop, options @ ..] = arguments else { return Reply::Nil };
    let with_scores = match options {
        [] => false,
        [option] if option.eq_ignore_ascii_case(b"withscores") => true,
        _ => return syntax(),
    };
    let version = space.version;
    let elements = |set: &SortedSet, start, stop| {
        let mut all: Vec<_> = set.iter().collect();
        all.sort_by(|(one, one_score), (other, other_score)| {
            one_score.total_cmp(other_score).then_with(|| one.cmp(other))
        });
        let chosen = all.get(range(all.len(), start, stop)).unwrap_or_default();
        let texts = chosen.iter().flat_map(|(member, score)| {
            let score = with_scores.then(|| Reply::bulk(number::text(**score, version)));
            [Reply::bulk(member)].into_iter().chain(score)
        });
        Reply::Array(texts.collect())
    };
    either(integer(start).and_then(|start| {
        let stop = integer(stop)?;
        Ok(space.read(key, |set| elements(set, start, stop)).into())
    }))
}

pub(crate) fn zrem(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, members @ ..] = arguments else { return Reply::Nil };
    let remove = |set: &mut SortedSet| {
        Reply::count(members.iter().filter(|member| set.remove(**member).is_some()).count())
    };
    space.change(key, remove).into()
}

pub(crate) fn zremrangebyscore(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, least, most, ..] = arguments else { return Reply::Nil };
    let Some(bounds) = Bounds::of(least, most) else { return not_a_range() };
    let remove = |set: &mut SortedSet| {
        let before = set.len();
        set.retain(|_, score| !bounds.contain(*score));
        Reply::count(before - set.len())
    };
    space.change(key, remove).into()
}

pub(crate) fn zscore(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, member, ..] = arguments else { return Reply::Nil };
    let version = space.version;
    space.read(key, |set| score(set, member, version)).into()
}

fn score(set: &SortedSet, member: &[u8], version: Version) -> Reply {
    Reply::optional(set.get(member).map(|score| number::text(*score, version)))
}

fn not_a_range() -> Reply {
    Reply::error("ERR min or max is not a float")
}

/// Scores from the least to the most one, each of which may be excluded by `(`.
struct Bounds {
    least: (f64, bool),
    most: (f64, bool),
}

impl Bounds {
    fn of(least: &[u8], most: &[u8]) -> Option<Self> {
        let bound = |word: &[u8]| match word.strip_prefix(b"(") {
            Some(rest) => Some((number::bound(rest)?, false)),
            None => Some((number::bound(word)?, true)),
        };
        Some(Self { least: bound(least)?, most: bound(most)? })
    }

    fn contain(&self, score: f64) -> bool {
        let is_after = score > self.least.0 || self.least.1 && score >= self.least.0;
        let is_before = score < self.most.0 || self.most.1 && score <= self.most.0;
        is_after && is_before
    }
}
