//! Traces for whoever collects them: sent by OpenTelemetry, in a program that was built with it.
//!
//! What is traced are spans of ours: a task's sessions, its commits, and requests by HTTP.

use tracing_subscriber::{Layer, Registry, layer::Layered};

use super::Failure;

/// Under what the layer of traces stands: the log.
type Log = Layered<
    tracing_subscriber::filter::Filtered<
        Box<dyn Layer<Registry> + Send + Sync>,
        tracing_subscriber::filter::Targets,
        Registry,
    >,
    Registry,
>;

/// A layer that sends, or nothing.
type Sends = Option<Box<dyn Layer<Log> + Send + Sync>>;

#[cfg(not(feature = "otel"))]
mod sending {
    use super::{Failure, Sends};

    /// Nothing is sent.
    pub(in super::super) struct Traces;

    impl Traces {
        pub(in super::super) fn to(url: Option<&str>) -> Result<Traces, Failure> {
            match url {
                None => Ok(Traces),
                Some(url) => Err(Failure::input(format!(
                    "--otlp {url}: this program was built without OpenTelemetry; build it with \
                     `cargo install --path crates/sardonyx --features otel`"
                ))),
            }
        }

        pub(in super::super) fn layer(&self) -> Sends {
            None
        }

        pub(in super::super) async fn end(self) {}
    }
}

#[cfg(feature = "otel")]
mod sending {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
    use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::{Layer as _, filter::Targets};

    use super::{Failure, Sends};

    /// What sends, if somebody wants it.
    pub(in super::super) struct Traces(Option<SdkTracerProvider>);

    impl Traces {
        pub(in super::super) fn to(url: Option<&str>) -> Result<Traces, Failure> {
            let Some(url) = url else { return Ok(Traces(None)) };
            if !url.starts_with("http://") && !url.starts_with("https://") {
                let why = format!("--otlp {url}: write http://127.0.0.1:4317");
                return Err(Failure::input(why));
            }
            let exporter = SpanExporter::builder().with_tonic().with_endpoint(url).build();
            let exporter =
                exporter.map_err(|why| Failure::input(format!("--otlp {url}: {why}")))?;
            let resource = Resource::builder().with_service_name("sardonyx").build();
            let provider = SdkTracerProvider::builder()
                .with_batch_exporter(exporter)
                .with_resource(resource)
                .build();
            Ok(Traces(Some(provider)))
        }

        pub(in super::super) fn layer(&self) -> Sends {
            let tracer = self.0.as_ref()?.tracer("sardonyx");
            // Ours alone: what libraries do is theirs, and may show what nobody should see.
            let ours = Targets::new().with_target("sardonyx", LevelFilter::INFO);
            Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours).boxed())
        }

        /// Sends what is left. A collector that is away must not keep a node from ending.
        pub(in super::super) async fn end(self) {
            let Some(provider) = self.0 else { return };
            let ended = tokio::task::spawn_blocking(move || provider.shutdown()).await;
            if let Ok(Err(why)) = ended {
                tracing::warn!(%why, "not all traces were sent");
            }
        }
    }
}

pub(super) use sending::Traces;
