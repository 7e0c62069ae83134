//! Filters by name.

use crate::{
    Command, Error, Layer, Reply, Stack,
    settings::{Mistakes, Settings},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use tower::{BoxError, Service};

/// Stands among the facts that a filter finds above it where the chain's sessions share their
/// connections.
pub const SHARED: &str = "shared connections";

/// A filter the configuration can name.
pub trait FilterFactory: 'static {
    /// Its name in the configuration, in kebab-case.
    const NAME: &'static str;
    /// Facts it reads: a filter above must give them.
    const NEEDS: &'static [&'static str] = &[];
    /// Facts it attaches for the filters below.
    const GIVES: &'static [&'static str] = &[];
    /// The filter without which it must not be, in the chain's `backend` list.
    const WANTS_BELOW: Option<&'static str> = None;
    /// Which of a chain's lists it belongs in.
    const PART: Part = Part::Session;

    /// Its settings. Derive `Deserialize` with `deny_unknown_fields`, and `JsonSchema`.
    type Config: DeserializeOwned + JsonSchema;

    /// Reads its settings; what is wrong with them is noted in `mistakes`. Only for settings that
    /// serde cannot read on its own (other files, mistakes in several places at once).
    fn read(settings: &Settings, mistakes: &mut Mistakes) -> Option<Self::Config> {
        settings.deserialize(mistakes)
    }

    /// What it attaches with these settings, of [`Self::GIVES`]. Only for a filter that some of its
    /// settings keep from it.
    fn gives(_: &Self::Config) -> &'static [&'static str] {
        Self::GIVES
    }

    /// The filters without which some of these settings have no effect: further down in the
    /// session's list.
    fn wants(_: &Self::Config) -> Vec<Want> {
        Vec::new()
    }

    /// Checks the settings and makes the layer all sessions will share.
    fn build(config: Self::Config) -> Result<impl IntoLayer, BoxError>;

    /// The same, for a filter that depends on what the filters above it give: the names of their
    /// facts are in `above`, and [`SHARED`] where the chain's sessions share their connections.
    fn build_below(
        config: Self::Config,
        above: &BTreeSet<&'static str>,
    ) -> Result<impl IntoLayer, BoxError> {
        let _ = above;
        Self::build(config)
    }
}

/// A filter that another one's settings want below them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its name.
    pub filter: &'static str,
    /// What has no effect without it, as the subject of a sentence: `` `cache_ttl` of rule 5 ``.
    pub what: String,
}

/// The lists of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One stack for each session, above the choice of a server.
    Session,
    /// One stack for each connection to a server, below that choice.
    Backend,
    /// Works in both.
    Either,
}

/// Every layer that fits into a chain. You never implement this: write a [`tower::Layer`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fit into a chain",
    label = "not a filter",
    note = "a filter is a `tower::Layer<chain::Stack>` that is `Send + Sync + 'static`",
    note = "its service must be a `Send + 'static` `Service<Command, Response = Reply>` whose \
            error converts into `chain::Error` and whose future is `Send + 'static`"
)]
pub trait IntoLayer {
    /// Erases the layer's type.
    fn into_layer(self) -> Layer;
}

impl<L> IntoLayer for L
where
    L: tower::Layer<Stack> + Send + Sync + 'static,
    L::Service: Service<Command, Response = Reply> + Send + 'static,
    <L::Service as Service<Command>>::Error: Into<Error> + 'static,
    <L::Service as Service<Command>>::Future: Send + 'static,
{
    fn into_layer(self) -> Layer {
        Layer::new(self)
    }
}

/// The filters a binary was built with. A plain value: no statics, no link-time tricks.
#[derive(Default)]
pub struct Registry(BTreeMap<&'static str, Entry>);

/// One filter of a registry.
pub struct Entry {
    /// Facts it reads.
    pub needs: &'static [&'static str],
    /// Facts it attaches.
    pub gives: &'static [&'static str],
    /// Where it belongs.
    pub part: Part,
    /// See [`FilterFactory::WANTS_BELOW`].
    pub wants_below: Option<&'static str>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    build: Box<Build>,
}

/// Checks a filter's settings and makes its layer; what is wrong with them is noted.
type Build =
    dyn Fn(&Settings, &mut Mistakes, &BTreeSet<&'static str>) -> Option<Built> + Send + Sync;

/// Needs, gives, part, and what it wants below.
type Place = (&'static [&'static str], &'static [&'static str], Part, Option<&'static str>);

/// A filter with its settings.
pub(crate) struct Built {
    pub(crate) layer: Layer,
    /// Facts it attaches, as it is set.
    pub(crate) gives: &'static [&'static str],
    pub(crate) wants: Vec<Want>,
}

impl Registry {
    /// Adds a filter.
    ///
    /// # Panics
    ///
    /// If there is one of that name already.
    #[must_use]
    pub fn with<F: FilterFactory>(self) -> Self {
        let build = |config, above: &BTreeSet<_>| {
            let (gives, wants) = (F::gives(&config), F::wants(&config));
            Ok(Built { layer: F::build_below(config, above)?.into_layer(), gives, wants })
        };
        let place = (F::NEEDS, F::GIVES, F::PART, F::WANTS_BELOW);
        self.insert::<F::Config>(F::NAME, place, F::read, build)
    }

    /// Adds somebody else's tower layer under `name`.
    ///
    /// # Panics
    ///
    /// If there is a filter of that name already.
    #[must_use]
    pub fn with_layer<C, L>(
        self,
        name: &'static str,
        build: impl Fn(C) -> Result<L, BoxError> + Send + Sync + 'static,
    ) -> Self
    where
        C: DeserializeOwned + JsonSchema + 'static,
        L: IntoLayer,
    {
        let build = move |config, _: &BTreeSet<_>| {
            let (gives, wants) = (&[][..], Vec::new());
            Ok(Built { layer: build(config)?.into_layer(), gives, wants })
        };
        let read = |settings: &Settings, mistakes: &mut Mistakes| settings.deserialize(mistakes);
        self.insert::<C>(name, (&[], &[], Part::Either, None), read, build)
    }

    /// The filter of that name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.0.get(name)
    }

    /// All filters, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Entry)> {
        self.0.iter().map(|(name, entry)| (*name, entry))
    }

    fn insert<C: DeserializeOwned + JsonSchema + 'static>(
        mut self,
        name: &'static str,
        (needs, gives, part, wants_below): Place,
        read: impl Fn(&Settings, &mut Mistakes) -> Option<C> + Send + Sync + 'static,
        build: impl Fn(C, &BTreeSet<&'static str>) -> Result<Built, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let build = Box::new(move |settings: &Settings, mistakes: &mut Mistakes, above: &_| {
            let config = read(settings, mistakes)?;
            build(config, above)
                .map_err(|e| mistakes.push(settings.mistake(format!("{name}: {e}"))))
                .ok()
        });
        let schema = |generator: &mut SchemaGenerator| C::json_schema(generator);
        let before = self.0.insert(name, Entry { needs, gives, part, wants_below, schema, build });
        assert!(before.is_none(), "two filters are named {name:?}");
        self
    }
}

impl Entry {
    /// The JSON Schema of its settings.
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    /// `above` has the facts that the filters above it give.
    pub(crate) fn build(
        &self,
        settings: &Settings,
        mistakes: &mut Mistakes,
        above: &BTreeSet<&'static str>,
    ) -> Option<Built> {
        (self.build)(settings, mistakes, above)
    }
}
