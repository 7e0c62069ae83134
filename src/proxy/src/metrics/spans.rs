//! Spans for a collector.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::Counter},
};
use std::fmt;

/// What has become of spans. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// The collector has them.
    pub(crate) exported: Counter,
    /// There was no room for them.
    pub(crate) dropped: Counter,
    /// The collector could not be reached, or refused them.
    pub(crate) failed: Counter,
}

impl Collector for Spans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Spans of traces: taken by the collector, dropped for want of room, or failed";
        let mut metric = encoder.encode_descriptor("spans", help, None, MetricType::Counter)?;
        let counters =
            [("exported", &self.exported), ("dropped", &self.dropped), ("failed", &self.failed)];
        for (outcome, counter) in counters {
            counter.encode(metric.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }
}
