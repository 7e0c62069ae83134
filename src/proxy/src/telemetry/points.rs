//! The admin port's metrics as OTLP has them: what is counted is counted once, and read here from
//! the text that Prometheus gets.

use crate::metrics::{
    Operations,
    text::{Family, Sample, families},
};
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
        metric::Data, number_data_point::Value,
    },
};

/// When counting began, and now: nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) now: u64,
}

/// The families of `text`, which is OpenMetrics'. What is no family of numbers is left out.
pub(super) fn of_text(text: &str, times: Times) -> Vec<Metric> {
    families(text).into_iter().filter_map(|family| metric(&family, times)).collect()
}

/// `db.client.operation.duration`, with the buckets that the conventions recommend.
pub(super) fn of_operations(operations: &[Operations], times: Times) -> Metric {
    let points = operations.iter().map(|one| HistogramDataPoint {
        attributes: of_operation(one),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: one.counts.iter().sum(),
        sum: Some(one.seconds),
        bucket_counts: one.counts.clone(),
        explicit_bounds: Operations::BOUNDS.to_vec(),
        ..HistogramDataPoint::default()
    });
    let data = Data::Histogram(Histogram {
        data_points: points.collect(),
        aggregation_temporality: AggregationTemporality::Cumulative.into(),
    });
    Metric {
        name: "db.client.operation.duration".to_owned(),
        description: "Duration of database client operations.".to_owned(),
        unit: "s".to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn of_operation(one: &Operations) -> Vec<KeyValue> {
    let Operations { place, hostgroup, server, kind, .. } = one;
    let texts = [
        ("db.system.name", place.system()),
        ("server.address", &*place.address),
        ("towpath.server", server),
        ("towpath.kind", kind),
    ];
    let mut all: Vec<_> = texts.map(|(key, value)| attribute(key, value)).into();
    all.extend(place.port.map(|port| number("server.port", port.into())));
    all.push(number("towpath.hostgroup", (*hostgroup).into()));
    all
}

fn attribute(key: &str, value: &str) -> KeyValue {
    with_value(key, any_value::Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: i64) -> KeyValue {
    with_value(key, any_value::Value::IntValue(value))
}

fn with_value(key: &str, value: any_value::Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn metric(family: &Family<'_>, times: Times) -> Option<Metric> {
    let data = match family.kind {
        "counter" => Data::Sum(Sum {
            data_points: numbers(family, times),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        "gauge" => Data::Gauge(Gauge { data_points: numbers(family, times) }),
        "histogram" => Data::Histogram(Histogram {
            data_points: histograms(family, times),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        }),
        _ => return None,
    };
    let bare = family.name.strip_suffix(family.unit).unwrap_or(family.name).trim_end_matches('_');
    let unit = match family.unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    };
    Some(Metric {
        name: bare.replacen("towpath_", "towpath.", 1),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

fn attributes(sample: &Sample<'_>) -> Vec<KeyValue> {
    let plain = sample.labels.iter().filter(|(key, _)| *key != "le");
    plain.map(|(key, value)| attribute(key, value)).collect()
}

fn numbers(family: &Family<'_>, times: Times) -> Vec<NumberDataPoint> {
    let points = family.samples.iter().map(|sample| NumberDataPoint {
        attributes: attributes(sample),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    });
    points.collect()
}

/// A histogram's samples follow each other: its buckets are between one `_count` and the next.
fn histograms(family: &Family<'_>, times: Times) -> Vec<HistogramDataPoint> {
    let mut points: Vec<HistogramDataPoint> = Vec::new();
    for sample in &family.samples {
        let attributes = attributes(sample);
        if points.last().is_none_or(|point| point.attributes != attributes) {
            points.push(HistogramDataPoint {
                attributes,
                start_time_unix_nano: times.start,
                time_unix_nano: times.now,
                ..HistogramDataPoint::default()
            });
        }
        let Some(point) = points.last_mut() else { continue };
        let whole = sample.value.max(0.0) as u64;
        match sample.name.strip_prefix(family.name) {
            Some("_sum") => point.sum = Some(sample.value),
            Some("_count") => point.count = whole,
            Some("_bucket") => {
                let before: u64 = point.bucket_counts.iter().sum();
                point.bucket_counts.push(whole.saturating_sub(before));
                let bound = sample.label("le").and_then(|bound| bound.parse::<f64>().ok());
                point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
            }
            _ => {}
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::{Times, of_text};
    use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point::Value};

    const TEXT: &str = "\
# HELP towpath_commands Commands read.
# TYPE towpath_commands counter
towpath_commands_total{command=\"query\",odd=\"a\\\"b,\\\\\"} 7
towpath_commands_total{command=\"ping\"} 2
# HELP towpath_lag_seconds Lag.
# TYPE towpath_lag_seconds gauge
# UNIT towpath_lag_seconds seconds
towpath_lag_seconds 0.5
# HELP towpath_took_seconds Took.
# TYPE towpath_took_seconds histogram
# UNIT towpath_took_seconds seconds
towpath_took_seconds_sum{a=\"x\"} 3.5
towpath_took_seconds_count{a=\"x\"} 4
towpath_took_seconds_bucket{le=\"0.1\",a=\"x\"} 1
towpath_took_seconds_bucket{le=\"1.0\",a=\"x\"} 3
towpath_took_seconds_bucket{le=\"+Inf\",a=\"x\"} 4
# HELP towpath_build Version.
# TYPE towpath_build info
towpath_build_info{version=\"1\"} 1
# EOF
";

    #[test]
    fn each_kind_becomes_what_otlp_has_for_it() {
        let metrics = of_text(TEXT, Times { start: 1, now: 2 });
        let names: Vec<_> = metrics.iter().map(|one| (&*one.name, &*one.unit)).collect();
        assert_eq!(names, [("towpath.commands", ""), ("towpath.lag", "s"), ("towpath.took", "s")]);
        let [Metric { data: Some(Data::Sum(sum)), .. }, _, took] = &metrics[..] else {
            panic!("{metrics:?}");
        };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(Value::AsDouble(7.0)));
        let odd = format!("{:?}", sum.data_points[0].attributes[1]);
        assert!(odd.contains(r#"a\"b,\\"#), "{odd}");
        let Some(Data::Histogram(took)) = &took.data else { panic!("{took:?}") };
        let point = &took.data_points[0];
        assert_eq!((point.sum, point.count), (Some(3.5), 4));
        assert_eq!(
            (&point.bucket_counts[..], &point.explicit_bounds[..]),
            (&[1, 2, 1][..], &[0.1, 1.0][..])
        );
    }
}
