//! What a reload makes of a chain that is in use.

use super::{Chain, Entered};
use std::sync::Arc;

impl Chain {
    /// Takes the place of `older` in a reload.
    ///
    /// If both have the same filters in the same order, and each filter's settings either are what
    /// they were or can change under sessions ([`Layer::live`](crate::Layer::live)), this is `older`
    /// with other settings: sessions stay with it. If not it is a chain of its own. What filters
    /// keep beyond a reload is handed on in both cases.
    #[must_use]
    pub fn in_place_of(self, older: &Self) -> Self {
        hand_on(&older.session, &self.session);
        hand_on(&older.backend, &self.backend);
        let stays = self.given == older.given
            && self.shares == older.shares
            && fit(&older.session, &self.session)
            && fit(&older.backend, &self.backend);
        if !stays {
            return self;
        }
        Self {
            name: self.name.clone(),
            timed: self.timed,
            session: become_these(&older.session, self.session),
            backend: become_these(&older.backend, self.backend),
            given: self.given,
            shares: self.shares,
            identity: older.identity.clone(),
            bottoms: older.bottoms.clone(),
            turns: older.turns.clone(),
        }
    }

    /// Whether sessions of one can stay with the other.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// Whether both have the same filters with the same settings.
    pub fn is_the_same_as(&self, other: &Self) -> bool {
        let same = |(one, other): (&Entered, &Entered)| {
            (&one.name, one.print) == (&other.name, other.print)
        };
        let all = |one: &[Entered], other: &[Entered]| {
            one.len() == other.len() && one.iter().zip(other).all(same)
        };
        self.shares == other.shares
            && all(&self.session, &other.session)
            && all(&self.backend, &other.backend)
    }
}

/// Once for each filter of the older chain, to the first one of its name.
fn hand_on(older: &[Entered], newer: &[Entered]) {
    let mut left: Vec<_> = newer.iter().collect();
    for old in older {
        if let Some(at) = left.iter().position(|new| new.name == old.name) {
            old.layer.bequeath(&left.remove(at).layer);
        }
    }
}

fn fit(older: &[Entered], newer: &[Entered]) -> bool {
    let fits = |(old, new): (&Entered, &Entered)| {
        old.name == new.name && (old.print == new.print || old.layer.can_become(&new.layer))
    };
    older.len() == newer.len() && older.iter().zip(newer).all(fits)
}

fn become_these(older: &[Entered], newer: Vec<Entered>) -> Vec<Entered> {
    let becomes = |(old, new): (&Entered, Entered)| {
        if !old.layer.can_become(&new.layer) {
            return old.clone();
        }
        Entered { layer: old.layer.becoming(new.layer), sum: old.sum.clone(), ..new }
    };
    older.iter().zip(newer).map(becomes).collect()
}

#[cfg(test)]
mod tests {
    use crate::{
        Chain, Command, Error, Filter, Layer, Next, Registry, Reply, Result,
        counters::{Counter, Family},
        live::{Current, Live},
        testing::{self, Client},
    };

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Word {
        word: String,
    }

    struct Says {
        word: String,
        count: Counter,
    }

    struct Fixed(String);

    struct Following(Current<Says>);

    impl Filter for Fixed {
        async fn handle(&mut self, _: Command, _: Next<'_>) -> Result<Reply> {
            Err(Error::filter(self.0.clone()))
        }
    }

    impl Filter for Following {
        async fn handle(&mut self, command: Command, _: Next<'_>) -> Result<Reply> {
            self.0.renew(command.session());
            self.0.get().count.add_one();
            Err(Error::filter(self.0.get().word.clone()))
        }
    }

    fn registry() -> Registry {
        Registry::default()
            .with_layer("fixed", |Word { word }| {
                Ok(crate::each_session(move || Fixed(word.clone())))
            })
            .with_layer("live", |Word { word }| {
                let family = Family::new("said", "Words said", "word");
                let live = Live::new(Says { word, count: family.counter("all") });
                let sessions = live.clone();
                let layer = crate::each_session(move || Following(sessions.current()));
                let layer = Layer::new(layer).counting([family]);
                Ok(layer.live(&live, |old, new| new.count.add(old.count.get())))
            })
    }

    fn chain(filters: &str) -> Chain {
        testing::chain(&format!("session = [{filters}]"), &registry()).expect("is good")
    }

    fn said(client: &mut Client) -> String {
        client.query("SELECT 1").expect_err("a word").message().to_string()
    }

    fn client(chain: &Chain) -> Client {
        Client::new(chain.session(testing::ok(testing::Log::default())))
    }

    #[test]
    fn live_settings_change_under_a_session_and_counts_go_on() {
        let before = chain("{ use = 'live', word = 'one' }");
        let mut session = client(&before);
        assert_eq!(said(&mut session), "one");
        let after = chain("{ use = 'live', word = 'two' }").in_place_of(&before);
        assert!(after.is(&before));
        assert_eq!(said(&mut session), "two");
        assert_eq!(said(&mut client(&after)), "two");
        let family = after.counters().next().expect("it counts");
        assert_eq!(family.counts(), [("all".to_owned(), 3)]);
        // What comes third changes the session that began first.
        let third = chain("{ use = 'live', word = 'three' }").in_place_of(&after);
        assert!(third.is(&before));
        assert_eq!(said(&mut session), "three");
    }

    #[test]
    fn settings_that_cannot_change_make_another_chain() {
        let before = chain("{ use = 'fixed', word = 'one' }");
        let mut session = client(&before);
        let same = chain("{ word = 'one',   use = 'fixed' }").in_place_of(&before);
        assert!(same.is(&before));
        for other in ["{ use = 'fixed', word = 'two' }", "", "{ use = 'live', word = 'one' }"] {
            let after = chain(other).in_place_of(&before);
            assert!(!after.is(&before), "{other}");
        }
        assert_eq!(said(&mut session), "one");
        let live = chain("{ use = 'live', word = 'a' }");
        said(&mut client(&live));
        let longer = "{ use = 'live', word = 'b' }, { use = 'fixed', word = 'c' }";
        let longer = chain(longer).in_place_of(&live);
        assert!(!longer.is(&live));
        let family = longer.counters().next().expect("it counts");
        assert_eq!(family.counts(), [("all".to_owned(), 1)], "counts go on in another chain too");
    }
}
