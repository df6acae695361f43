//! Settings.

use serde_json::json;

use crate::api::lists::List;
use crate::api::manage::settings::{self, SettingBody, ShownSetting};
use crate::api::routes::route::{ADMIN, Area, VIEWER, delete, get, put};

pub(crate) fn area() -> Area {
    let (all, one) = ("/everpost/settings", "/everpost/settings/{name}");
    Area {
        name: "Settings",
        description: "What the appliance runs with, and where each setting comes from. The first of these that sets it counts: a \
            flag, an environment variable, what is saved here, the configuration file, a default.",
        routes: vec![
            get(all, VIEWER, settings::list)
                .doc("listSettings", "List settings")
                .says("All settings, with what is in force; without secrets.")
                .answers::<List<ShownSetting>>(200, "The settings."),
            get(one, VIEWER, settings::get)
                .doc("getSetting", "Get a setting")
                .says("With what is in force; without secrets.")
                .answers::<ShownSetting>(200, "The setting."),
            put(one, ADMIN, settings::put)
                .doc("putSetting", "Save a setting")
                .says("It is in force at once, and kept in the database.")
                .takes::<SettingBody>(json!({ "value": "336" }))
                .answers::<ShownSetting>(200, "What is in force.")
                .rejects(
                    409,
                    "A flag or a variable sets it, or it takes a restart to change it.",
                ),
            delete(one, ADMIN, settings::delete)
                .doc("resetSetting", "Reset a setting")
                .says(
                    "What was saved is forgotten: the configuration file or the default is in force again.",
                )
                .answers_nothing(204, "Nothing is saved.")
                .rejects(
                    409,
                    "A flag or a variable sets it, or it takes a restart to change it.",
                ),
        ],
    }
}
