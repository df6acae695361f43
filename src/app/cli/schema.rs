//! The schemas of events, as flags.

use clap::ValueEnum;

/// How events are written.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaArgument {
    Eventgrid,
    Cloudevents,
    Custom,
}

impl SchemaArgument {
    /// The input schema of that name.
    pub(super) fn of_input(name: &str) -> Option<Self> {
        let mut all = Self::value_variants().iter().copied();
        all.find(|schema| schema.input() == name)
    }

    /// Azure's name for what publishers send.
    pub(super) fn input(self) -> &'static str {
        match self {
            Self::Custom => "CustomEventSchema",
            Self::Eventgrid | Self::Cloudevents => self.delivery(),
        }
    }

    /// Azure's name for what webhooks receive.
    pub(super) fn delivery(self) -> &'static str {
        match self {
            Self::Eventgrid => "EventGridSchema",
            Self::Cloudevents => "CloudEventSchemaV1_0",
            Self::Custom => "CustomInputSchema",
        }
    }
}
