//! The commands that do on the command line what a page does.

use crate::admin::lists::link;
use crate::admin::outside::*;
use crate::admin::site::Site;
use crate::admin::widgets::part;

#[derive(Clone, Debug, Default, Template)]
#[template(path = "widgets/recipe.html")]
pub(crate) struct Recipe {
    /// For each program, in the order in which they are run.
    commands: Vec<(&'static str, Vec<String>)>,
    needs_token: bool,
}

part!(Recipe);

impl Recipe {
    pub(crate) fn get(url: &str) -> Self {
        let header = "-H \"Authorization: Bearer $TOKEN\"";
        Self::default().and("curl", format!("curl {header} \\\n  {}", quoted(url)))
    }

    /// Asks for what is at `path` of the API, and the same by a command.
    pub(crate) fn of(site: &Site, path: &str, command: impl Into<String>) -> Self {
        Self::get(&site.management_url(path)).everpost(command)
    }

    /// Asks for the list at `path` with these parameters, which are the flags of the command, too.
    pub(crate) fn list(site: &Site, path: &str, words: &str, flags: &[(&str, String)]) -> Self {
        let path = link(&format!("/everpost/{path}"), flags);
        Self::of(site, &path, command(&format!("everpost {words}"), flags))
    }

    pub(crate) fn one(site: &Site, path: &str, words: &str, id: impl Display) -> Self {
        let path = format!("/everpost/{path}/{id}");
        Self::of(site, &path, format!("everpost {words} {id}"))
    }

    pub(crate) fn post(url: &str, body: &Value) -> Self {
        let headers = "-H \"Authorization: Bearer $TOKEN\" -H \"Content-Type: application/json\"";
        let body = quoted(&body.to_string());
        Self::default().and(
            "curl",
            format!("curl {headers} \\\n  -d {body} \\\n  {}", quoted(url)),
        )
    }

    /// Then posts to `path` of the API, which needs nothing but that, and the same by a command.
    pub(crate) fn then(mut self, site: &Site, path: &str, command: String) -> Self {
        let then = Self::post(&site.management_url(path), &json!({})).everpost(command);
        for ((_, commands), (_, next)) in self.commands.iter_mut().zip(then.commands) {
            commands.extend(next);
        }
        self
    }

    /// For what the management API has no single request for.
    pub(crate) fn everpost_alone(command: &str) -> Self {
        Self::default().everpost(command)
    }

    pub(crate) fn everpost(self, command: impl Into<String>) -> Self {
        self.and("everpost", command.into())
    }

    fn and(mut self, with: &'static str, command: String) -> Self {
        self.needs_token |= command.contains("$TOKEN");
        self.commands.push((with, vec![command]));
        self
    }
}

pub(crate) fn command(words: &str, flags: &[(&str, String)]) -> String {
    let given = flags.iter().filter(|(_, value)| !value.is_empty());
    let flags = given.map(|(name, value)| format!(" --{name} {}", quoted(value)));
    format!("{words}{}", flags.collect::<String>())
}

/// `text` as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_flags_that_are_given() {
        let flags = [("topic", "orders".to_owned()), ("id", String::new())];
        assert_eq!(command("everpost x", &flags), "everpost x --topic 'orders'");
    }

    #[test]
    fn a_shell_sees_one_word() {
        assert_eq!(quoted("http://x/a?b=c&d"), "'http://x/a?b=c&d'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
