//! What all clones and tiers of a limiter share, and how it asks the store.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use limiter_core::{Decision, Error, ErrorKind, Policy};

use crate::{
    acquire,
    breaker::{self, Breaker, Pass},
    call::{Deadline, call},
    client::{ScriptCall, ScriptClient, ScriptReply},
    command::quoted,
    denials::Denials,
    events::{Event, Events, FallbackKind, Observer},
    failure::{FailurePolicy, Local},
    keys::Keys,
    scripts::{Call, Plan},
};

/// What a limiter was told.
#[derive(Clone)]
pub(crate) struct Settings<C> {
    pub(crate) client: C,
    pub(crate) prefix: String,
    pub(crate) deadline: Duration,
    pub(crate) failure_policy: FailurePolicy,
    /// How many refusals are remembered.
    pub(crate) denials: usize,
    pub(crate) observer: Option<Arc<Observer>>,
    /// Sets the scripts' `now`.
    pub(crate) prelude: String,
}

pub(crate) struct Shared<C> {
    /// Tells this limiter's receipts from others'.
    pub(crate) id: u64,
    pub(crate) settings: Settings<C>,
    pub(crate) keys: Keys,
    pub(crate) denials: Denials,
    pub(crate) events: Events,
    pub(crate) local: Option<Local>,
    /// Two for each of so many servers: a cluster's node that fails is not asked, and all others
    /// are. What it tells those who only read says nothing to those who write, for whom it may have
    /// no memory left, so each have one of their own.
    breakers: [[Breaker; 2]; SERVERS],
    current: RwLock<Current>,
    /// Held by whoever replaces the policy: of two that come at once, the later one stays.
    replacing: Mutex<()>,
}

/// Servers by a number that is larger share the breaker of another.
const SERVERS: usize = 32;

#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) policy: Policy,
    pub(crate) plan: Arc<Plan>,
}

impl<C: ScriptClient> Shared<C> {
    pub(crate) fn new(settings: Settings<C>, policy: Policy) -> Result<Self, Error> {
        static LIMITERS: AtomicU64 = AtomicU64::new(0);
        let now = Instant::now();
        let events = Events::new(policy.name());
        let events = match &settings.observer {
            Some(observer) => events.observed_by(Arc::clone(observer)),
            None => events,
        };
        Ok(Self {
            id: LIMITERS.fetch_add(1, Ordering::Relaxed),
            keys: Keys::new(&settings.prefix, policy.name())?,
            denials: Denials::new(settings.denials, now),
            events,
            local: settings.failure_policy.local(&policy)?,
            breakers: std::array::from_fn(|_| {
                let settings = breaker::Settings::for_deadline(settings.deadline);
                [Breaker::new(settings, now), Breaker::new(settings, now)]
            }),
            current: RwLock::new(Current {
                plan: Arc::new(Plan::new(&settings.prelude, &policy)?),
                policy,
            }),
            replacing: Mutex::new(()),
            settings,
        })
    }

    /// Asks the store once, and returns what `read` makes of its reply.
    ///
    /// While the breaker is open, the store is not asked, and the error comes at once.
    pub(crate) async fn ask<T>(
        &self,
        key: &[u8],
        script_call: Call<'_>,
        read_only: bool,
        read: impl FnOnce(&[i64]) -> Option<T>,
    ) -> Result<T, Error> {
        // Without one, timers would panic.
        acquire::runtime()?;
        let (pass, deadline) = (self.pass(key, read_only)?, self.deadline());
        let script = script_call.script;
        let script_call = ScriptCall::new(script_call, vec![key.to_vec()]);
        let script_call = ScriptCall { read_only, ..script_call };
        let answer = call(&self.settings.client, script, script_call, deadline).await;
        self.heard(pass, (key, read_only), answer.map_err(Arc::new), read)
    }

    /// Returns the deadline of a call that is made now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline { since: Instant::now(), within: self.settings.deadline }
    }

    /// Returns leave to ask the store, or the error while the breaker is open.
    pub(crate) fn pass(&self, key: &[u8], read_only: bool) -> Result<Pass<'_>, Error> {
        self.breaker(key, read_only).pass(Instant::now()).map_err(|open| {
            self.events.tally().not_asked();
            let at = self.settings.client.name_of(key);
            let at = at.map_or(String::new(), |name| format!(" at {name}"));
            let message = format!(
                "Redis{at} failed just now, and is not asked again for {:?}",
                open.retry_in
            );
            self.named(Error::new(ErrorKind::Unavailable, message))
        })
    }

    /// Tells the breaker of an answer, and returns what `read` makes of it.
    pub(crate) fn heard<T>(
        &self,
        pass: Pass<'_>,
        (key, read_only): (&[u8], bool),
        answer: Result<ScriptReply, Arc<Error>>,
        read: impl FnOnce(&[i64]) -> Option<T>,
    ) -> Result<T, Error> {
        let result = answer.and_then(|reply| {
            reply.integers().and_then(|numbers| read(&numbers)).ok_or_else(|| {
                let reply = quoted(&reply);
                let message = format!("the script replied with {reply}, which has no meaning");
                Arc::new(Error::new(ErrorKind::Unexpected, message))
            })
        });
        self.note(pass, (key, read_only), result.as_ref().err().map(|error| &**error));
        result.map_err(|error| self.named(error))
    }

    /// Notes how a call went.
    pub(crate) fn note(
        &self,
        pass: Pass<'_>,
        (key, read_only): (&[u8], bool),
        error: Option<&Error>,
    ) {
        let now = Instant::now();
        let transition = match error {
            // It has answered, if only that it can't do this.
            Some(error) if error.kind() != ErrorKind::Unexpected => pass.failed(now),
            _ => pass.succeeded(now),
        };
        self.events.transition(transition, read_only, || self.settings.client.name_of(key));
        if let Some(error) = error {
            self.events.tell(&Event::StoreError(error));
        }
    }

    /// Returns what stands before the server that has a key, for calls that write or only read.
    pub(crate) fn breaker(&self, key: &[u8], read_only: bool) -> &Breaker {
        // The first is for keys that no server is known to have, and stands for none that is.
        let number = self.settings.client.server_of(key);
        let place = number.checked_sub(1).map_or(0, |number| 1 + number % (SERVERS - 1));
        // There is one for each remainder.
        let [writing, reading] = self.breakers.get(place).unwrap_or(&self.breakers[0]);
        if read_only { reading } else { writing }
    }

    /// Returns the decision that is the same for all while the store fails, if there is one.
    pub(crate) fn decision_without_store(&self, tier: usize) -> Option<Decision> {
        let policy = self.policy(tier);
        let decision = self.settings.failure_policy.decision(&policy)?;
        let kind = if decision.is_admitted() { FallbackKind::Allow } else { FallbackKind::Deny };
        self.events.tell(&Event::Fallback(kind));
        Some(decision)
    }

    /// Returns what the limiter in memory answers while the store fails, if there is one.
    pub(crate) fn locally<T>(&self, ask: impl FnOnce(&Local) -> Option<T>) -> Option<T> {
        let answer = ask(self.local.as_ref()?)?;
        self.events.tell(&Event::Fallback(FallbackKind::Local));
        Some(answer)
    }

    pub(crate) fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).plan)
    }

    /// Returns the policy, or the tier's.
    pub(crate) fn policy(&self, tier: usize) -> Policy {
        let policy = self.current().policy;
        let tier = tier.checked_sub(1).and_then(|index| policy.tiers().get(index).cloned());
        tier.unwrap_or(policy)
    }

    pub(crate) fn replace(&self, policy: Policy) -> Result<(), Error> {
        let invalid = |message| Err(Error::new(ErrorKind::InvalidSetting, message));
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current();
        let (name, before) = (policy.name(), current.policy.name());
        if name != before {
            return invalid(format!(
                "the policy {name:?} in place of {before:?}: keys in Redis have the policy's name, \
                 so it has to stay"
            ));
        }
        let policy = current.policy.replaced_by(policy)?;
        let plan = Plan::new(&self.settings.prelude, &policy)?;
        if !plan.has_values_of(&current.plan) {
            return invalid(format!(
                "the policy {before:?}: with a tier its keys in Redis would have values of another \
                 kind than without; give it another name"
            ));
        }
        // Takes a while, in which checks go on by the policy before.
        if let Some(local) = &self.local {
            local.replace(&policy)?;
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            Current { policy, plan: Arc::new(plan) };
        self.denials.forget_all();
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_being_replaced(&self) -> bool {
        self.replacing.try_lock().is_err()
    }

    /// Returns the error with the policy's name.
    fn named(&self, error: impl Into<Arc<Error>>) -> Error {
        let error = error.into();
        let message = format!("policy {:?}: {error}", self.current().policy.name());
        Error::new(error.kind(), message).with_source(error)
    }
}
