//! Entry points for fuzz targets (`tests/fuzz`) to code that nothing else outside can reach: readers of files of the
//! command line.

use serde_json::{Value, json};

use crate::app::{cli, configuration_files};

/// Reads a file of configuration as code, and returns what is in it if it is YAML.
pub fn read_configuration(text: &str) -> Option<Value> {
    configuration_files::parse(text, false).ok()
}

/// Reads an ARM template and returns its objects.
pub fn read_template(text: &str) -> Vec<Value> {
    cli::objects_of_template(text)
}

/// Evaluates an expression of ARM templates, as the name of a topic in one with a parameter and a variable.
pub fn read_expression(text: &str) -> Vec<Value> {
    let template = json!({
        "parameters": { "p": { "type": "string", "defaultValue": "value" } },
        "variables": { "v": { "list": [1, "two", { "three": text }] } },
        "resources": [{ "type": "Microsoft.EventGrid/topics", "name": text, "properties": {} }],
    });
    read_template(&template.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzzing_begins_with_what_can_be_read() {
        let topics = include_str!("../../tests/fuzz/corpus/yaml/topic");
        let topics = read_configuration(topics).expect("YAML");
        assert_eq!(topics[0]["name"], "orders");
        let template = read_template(include_str!("../../tests/fuzz/corpus/arm/template"));
        assert_eq!(template[0]["name"], "orders-x");
        let expression = read_expression(include_str!("../../tests/fuzz/corpus/arm/0"));
        assert!(expression.len() <= 1, "{expression:?}");
        let expression = read_expression("[concat('a', parameters('p'))]");
        assert_eq!(expression[0]["name"], "avalue");
    }
}
