//! What the filters of the chains count.

use arc_swap::ArcSwap;
use chain::counters::Family;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// What there is to count now; a reload changes it. Clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted(Arc<ArcSwap<Families>>);

/// Families by their name, with the chains that they belong to.
type Families = BTreeMap<&'static str, Vec<(String, Family)>>;

impl Counted {
    /// The families of these chains from now on.
    pub(crate) fn replace<'a>(
        &self,
        chains: impl IntoIterator<Item = (&'a String, &'a chain::Chain)>,
    ) {
        let mut families = Families::default();
        for (name, chain) in chains {
            for family in chain.counters() {
                let same = families.entry(family.name()).or_default();
                same.push((name.clone(), family.clone()));
            }
        }
        self.0.store(Arc::new(families));
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, families) in &**self.0.load() {
            let Some((_, first)) = families.first() else { continue };
            let gauge = first.is_measured();
            let kind = if gauge { MetricType::Gauge } else { MetricType::Counter };
            let mut metric = encoder.encode_descriptor(name, first.help(), None, kind)?;
            for (chain, family) in families {
                for (value, count) in family.counts() {
                    let labels = [("chain", chain.as_str()), (family.label(), value.as_str())];
                    let one = metric.encode_family(&labels)?;
                    match gauge {
                        true => {
                            ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX)).encode(one)?
                        }
                        false => ConstCounter::new(count).encode(one)?,
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Counted;
    use chain::{Registry, counters::Family, stack::Layer, testing};
    use prometheus_client::{encoding::text, registry::Registry as Metrics};

    #[derive(serde::Deserialize, chain::schemars::JsonSchema)]
    #[schemars(crate = "chain::schemars")]
    struct Nothing {}

    #[test]
    fn families_of_several_chains_are_told_apart() {
        let registry = Registry::default().with_layer("counts", |_: Nothing| {
            let family = Family::new("rule_hits", "Commands that a rule matched", "rule_id");
            family.counter("7").add_one();
            let now = || vec![("full".to_owned(), 3)];
            let gauge = Family::measured("buckets", "Buckets by what is in them", "state", now);
            Ok(Layer::new(tower::layer::util::Identity::new()).counting([family, gauge]))
        });
        let chain = testing::chain("session = [{ use = 'counts' }]", &registry).expect("is good");
        let chains = [("a".to_owned(), chain.clone()), ("b".to_owned(), chain)];
        let mut metrics = Metrics::with_prefix("towpath");
        let counted = Counted::default();
        counted.replace(chains.iter().map(|(n, c)| (n, c)));
        metrics.register_collector(Box::new(counted));
        let mut out = String::new();
        text::encode(&mut out, &metrics).expect("a string takes all");
        assert!(out.contains("towpath_rule_hits_total{chain=\"a\",rule_id=\"7\"} 1"), "{out}");
        assert!(out.contains("towpath_rule_hits_total{chain=\"b\",rule_id=\"7\"} 1"), "{out}");
        assert!(out.contains("towpath_buckets{chain=\"a\",state=\"full\"} 3"), "{out}");
        assert_eq!(out.matches("# TYPE").count(), 2, "{out}");
    }
}
