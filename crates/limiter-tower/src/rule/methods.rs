//! The methods that rules of both kinds have.

use std::fmt;

use super::{ObserveFn, Spec};
use crate::{key::Head, observe::Outcome};

/// A rule of a layer.
pub(crate) trait LayerRule: Clone + fmt::Debug {
    fn spec(&self) -> &Spec;

    /// Reports that the rule was not asked.
    fn report_not_asked(&self, outcome: Outcome, head: Head<'_>);

    fn observed_by(self, observer: ObserveFn) -> Self;
}

/// The methods that rules of both kinds have. Each has `settings` with a [`Spec`], `with`, which changes
/// them, and `report_not_asked`.
macro_rules! rule_methods {
    ($rule:ty) => {
        /// What rules of both kinds have.
        impl $rule {
            /// Sets for which keys the rule is enforced, for all clones. The default is all keys. A shadow counts requests,
            /// and reports what it would refuse.
            #[must_use]
            pub fn with_mode(self, mode: $crate::rule::Mode) -> Self {
                self.set_mode(mode);
                self
            }

            /// Sets how much of the rule's decisions clients see. The default is all.
            #[must_use]
            pub fn disclose(self, disclosure: $crate::rule::Disclosure) -> Self {
                self.with(|settings| settings.spec.disclosure = disclosure)
            }

            /// Sets what follows while the limiter's store fails. The default is not to count requests meanwhile; the
            /// alternative is 503, or gRPC `UNAVAILABLE`. Other rules go on.
            ///
            /// An error that is no failure of the store is answered 500 or gRPC `INTERNAL`, and logged once.
            #[must_use]
            pub fn on_store_failure(self, choice: limiter_core::OnStoreFailure) -> Self {
                self.with(|settings| settings.spec.on_store_failure = choice)
            }

            /// Calls `observer` with what the rule did with each request, and with what becomes of permits, in place of an
            /// earlier observer: of requests that a layer with this rule receives, and of those that a handler asks it
            /// about. It is called on the request's path and when permits are dropped, so it must neither block nor panic.
            #[must_use]
            pub fn observe(
                self,
                observer: impl Fn(&$crate::observe::Event<'_>) + Send + Sync + 'static,
            ) -> Self {
                self.with(|settings| settings.spec.observer = Some(::std::sync::Arc::new(observer)))
            }

            /// Returns the rule's name: the one that its policy had at first, or its limiter's.
            #[must_use]
            pub fn name(&self) -> &str {
                self.spec().name()
            }

            /// Returns for which keys the rule is enforced.
            #[must_use]
            pub fn mode(&self) -> $crate::rule::Mode {
                self.spec().live.mode()
            }

            /// Sets for which keys the rule is enforced, in all clones.
            ///
            /// A rule whose key clients choose needs the rule beside it: make that one a shadow only together with it.
            pub fn set_mode(&self, mode: $crate::rule::Mode) {
                self.spec().live.set_mode(mode);
            }

            /// Returns the key under which the rule counts a request, for [`peek`](Self::peek) and [`reset`](Self::reset).
            ///
            /// # Errors
            ///
            /// [`MissingKey`](crate::key::MissingKey) if the request has none.
            pub fn key<'r>(
                &self,
                head: impl Into<$crate::key::Head<'r>>,
            ) -> Result<limiter_core::Key<'r>, $crate::key::MissingKey> {
                self.spec().key.key(head.into())
            }

            pub(crate) fn spec(&self) -> &$crate::rule::Spec {
                &self.settings.spec
            }
        }

        impl $crate::rule::LayerRule for $rule {
            fn spec(&self) -> &$crate::rule::Spec {
                self.spec()
            }

            fn report_not_asked(
                &self,
                outcome: $crate::observe::Outcome,
                head: $crate::key::Head<'_>,
            ) {
                self.report_not_asked(outcome, head);
            }

            fn observed_by(self, observer: $crate::rule::ObserveFn) -> Self {
                self.with(|settings| settings.spec.observer = Some(observer))
            }
        }
    };
}
pub(crate) use rule_methods;
