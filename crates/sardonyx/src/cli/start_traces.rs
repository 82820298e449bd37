//! Traces for whoever collects them: sent by OpenTelemetry, in a program that was built with it.
//!
//! What is traced are spans of ours: a task's sessions, its commits, and requests by HTTP.

#[cfg(not(feature = "otel"))]
mod sending {
    use tracing_subscriber::layer::Identity;

    use crate::cli::Failure;

    /// Nothing is sent.
    pub(crate) struct Traces;

    impl Traces {
        pub(crate) fn to(url: Option<&str>) -> Result<Traces, Failure> {
            match url {
                None => Ok(Traces),
                Some(url) => Err(Failure::input(format!(
                    "--otlp {url}: this program was built without OpenTelemetry; build it with \
                     `cargo install --path crates/sardonyx --features otel`"
                ))),
            }
        }

        pub(crate) fn layer(&self) -> Identity {
            Identity::new()
        }

        pub(crate) async fn end(self) {}
    }
}

#[cfg(feature = "otel")]
mod sending {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
    use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
    use tracing::{Subscriber, level_filters::LevelFilter};
    use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

    use crate::cli::Failure;

    /// What sends, if somebody wants it.
    pub(crate) struct Traces(Option<SdkTracerProvider>);

    impl Traces {
        pub(crate) fn to(url: Option<&str>) -> Result<Traces, Failure> {
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

        pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
        where
            S: Subscriber + for<'a> LookupSpan<'a>,
        {
            let tracer = self.0.as_ref()?.tracer("sardonyx");
            // Ours alone: what libraries do is theirs, and may show what nobody should see.
            let ours = Targets::new().with_target("sardonyx", LevelFilter::INFO);
            Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours))
        }

        /// Sends what is left. A collector that is away must not keep a node from ending.
        pub(crate) async fn end(self) {
            let Some(provider) = self.0 else { return };
            let ended = tokio::task::spawn_blocking(move || provider.shutdown()).await;
            if let Ok(Err(why)) = ended {
                tracing::warn!(%why, "not all traces were sent");
            }
        }
    }
}

pub(super) use sending::Traces;
