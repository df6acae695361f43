//! Spec 3.2 and 2.4.

use super::*;
use crate::model::access::KeyName;
use crate::model::topic::{InputMapping, MappedField};

fn check_topic(changes: &str, expected: &str) {
    let body = with(read("{'location': 'westeurope'}"), changes);
    let endpoint = "http://host/topics/Orders/api/events";
    let show = |kind| render_topic(&entry(kind), endpoint).expect("a topic of events");
    check(changes, parse_topic(&body).map(show), expected);
}

fn check_properties(properties: &str, expected: &str) {
    let changes = format!("{{'properties': {properties}}}");
    check_topic(&changes, &inside("properties", expected));
}

#[test]
fn envelopes_are_read_and_shown() {
    let table = "
        {}                 => /id = '/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/Orders'
        {'name': 'other'}  => /name = 'Orders'
        {}                 => /type = 'Microsoft.EventGrid/topics'
        {}                 => /systemData/createdAt = '2026-11-21T06:40:53.0000000Z'
        {}                 => /location = 'westeurope'
        {'location': null} => ! location: it is missing
        {'location': ''}   => ! location: it is empty
        {'location': 1}    => ! location: it must be a string, but it is a number

        {}                             => /tags = null
        {'tags': {'a': 'b'}}           => /tags = {'a': 'b'}
        {'tags': {'a': 1}}             => ! tags.a: it must be a string
        {'tags': []}                   => ! tags: it must be an object, but it is a list
        {'identity': {'type': 'None'}} => /identity/type = 'None'
        {'identity': 1}                => ! identity: it must be an object
        {'sku': {'name': 'Basic'}}     => /sku/name = 'Basic'

        # Unknown names are passed over, slips and wrong levels are not.
        {'zones': []}         => /zones = null
        {'tag': {}}           => ! tag: \"tags\"
        {'inputSchema': 'x'}  => ! inputSchema: it belongs into \"properties\"
        {'properties': 1}     => ! properties: it must be an object
    ";
    each_line(table, check_topic);
}

#[test]
fn properties_are_read_and_shown() {
    let table = "
        {}                   => /provisioningState = 'Succeeded'
        {}                   => /endpoint = 'http://host/topics/Orders/api/events'
        {}                   => /metricResourceId = '00000000-0000-0000-0000-000000000007'
        {'inputShema': 'x'}  => ! inputShema: \"inputSchema\"

        {}                                      => /inputSchema = 'EventGridSchema'
        {'inputSchema': 'cloudeventschemav1_0'} => /inputSchema = 'CloudEventSchemaV1_0'
        {'inputSchema': 'CustomInputSchema'}    => ! inputSchema: \"CustomEventSchema\"
        {'inputSchema': 'CustomEventSchema'}    => ! inputSchemaMapping: it is missing
        {'inputSchemaMapping': {}}              => ! inputSchemaMapping: only \"CustomEventSchema\"
        {}                                      => /inputSchemaMapping = null

        {}                                            => /publicNetworkAccess = 'Enabled'
        {'publicNetworkAccess': 'disabled'}           => /publicNetworkAccess = 'Disabled'
        {'publicNetworkAccess': 'SecuredByPerimeter'} => ! publicNetworkAccess: \"Enabled\" or \"Disabled\"

        {}                           => /disableLocalAuth = false
        {'disableLocalAuth': true}   => /disableLocalAuth = true
        {'disableLocalAuth': 'yes'}  => ! disableLocalAuth: true or false, but it is a string

        {'minimumTlsVersionAllowed': '1.2'}        => /minimumTlsVersionAllowed = '1.2'
        {'minimumTlsVersionAllowed': '2'}          => ! minimumTlsVersionAllowed: \"1.1\" or \"1.2\"
        {'dataResidencyBoundary': 'WithinRegion'}  => /dataResidencyBoundary = 'WithinRegion'
        {'dataResidencyBoundary': 'x'}             => ! dataResidencyBoundary: \"WithinGeopair\"
        {'eventTypeInfo': {'kind': 'Inline'}}      => /eventTypeInfo/kind = 'Inline'
        {'eventTypeInfo': 1}                       => ! eventTypeInfo: it must be an object
    ";
    each_line(table, check_properties);
}

#[test]
fn ip_rules_are_read_and_shown() {
    let check_rules = |rules: &str, expected: &str| {
        check_properties(&format!("{{'inboundIpRules': [{rules}]}}"), expected);
    };
    let table = "
        {'ipMask': '10.1.0.0/16'}    => /inboundIpRules/0/ipMask = '10.1.0.0/16'
        {'ipMask': '10.1.2.3/16'}    => /inboundIpRules/0/ipMask = '10.1.2.3/16'
        {'ipMask': '192.0.2.1'}      => /inboundIpRules/0/ipMask = '192.0.2.1'
        {'ipMask': '2001:db8::/32'}  => /inboundIpRules/0/ipMask = '2001:db8::/32'
        {'ipMask': '192.0.2.1'}      => /inboundIpRules/0/action = 'Allow'
        {'ipMask': '10.1.0.0/33'}    => ! inboundIpRules[0].ipMask: \"10.1.0.0/33\"
        {}                           => ! inboundIpRules[0].ipMask: it is missing
        {'action': 'Deny'}           => ! inboundIpRules[0].action: \"Allow\"
        {'ipMaks': '192.0.2.1'}      => ! inboundIpRules[0].ipMaks: \"ipMask\"
        '192.0.2.1'                  => ! inboundIpRules[0]: it must be an object
    ";
    each_line(table, check_rules);
    let many = |count| vec!["{'ipMask': '192.0.2.1'}"; count].join(",");
    check_rules("", "/inboundIpRules = []");
    check_rules(&many(128), "/inboundIpRules/127/action = 'Allow'");
    check_rules(&many(129), "! inboundIpRules: at most 128");
}

/// The mapping of rule 2.4.
const MAPPING: &str = "{'inputSchemaMappingType': 'Json', 'properties': {
    'id': {'sourceField': 'orderNo'},
    'topic': {'sourceField': 'shop'},
    'eventTime': {'sourceField': 'when'},
    'eventType': {'sourceField': 'kind', 'defaultValue': 'Order'},
    'subject': {'sourceField': 'path', 'defaultValue': '/orders'},
    'dataVersion': {'defaultValue': '1.0'}}}";

fn custom(mapping: &str) -> String {
    format!("{{'inputSchema': 'CustomEventSchema', 'inputSchemaMapping': {mapping}}}")
}

#[test]
fn a_whole_mapping_is_read() {
    let text = |text: &str| Some(text.to_owned());
    let field = |source_field, default_value| MappedField {
        source_field,
        default_value,
    };
    let expected = InputMapping {
        id: text("orderNo"),
        topic: text("shop"),
        event_time: text("when"),
        event_type: field(text("kind"), text("Order")),
        subject: field(text("path"), text("/orders")),
        data_version: field(None, text("1.0")),
    };
    let kind = topic(&custom(MAPPING));
    let read = kind.input_schema();
    assert_eq!(*read, InputSchema::CustomEventSchema(Box::new(expected)));
}

/// Replaces the part `name` of the mapping; `*` in what is expected stands for it.
fn check_part(name: &str, part: &str, expected: &str) {
    let mut mapping = read(MAPPING);
    mapping["properties"][name] = read(part);
    let expected = inside(
        "inputSchemaMapping.properties",
        &expected.replace('*', name),
    );
    check_properties(&custom(&mapping.to_string()), &expected);
}

#[test]
fn parts_of_mappings_are_checked() {
    let without_default = "
        null                   => /* = null
        {}                     => /* = null
        {'sourceField': null}  => /* = null
        {'sourceField': 'a.b'} => /*/sourceField = 'a.b'
        {'sourceField': ''}    => /* = null
        {'defaultValue': 'x'}  => ! *.defaultValue: only eventType, subject and dataVersion
        'x'                    => ! *: it must be an object
    ";
    for name in ["id", "topic", "eventTime"] {
        each_line(without_default, |part, expected| {
            check_part(name, part, expected);
        });
    }
    let with_default = "
        null                  => ! *: it is missing
        {}                    => ! *: it needs a sourceField, a defaultValue or both
        {'defaultValue': ''}  => /*/defaultValue = ''
        {'sourceField': 'a'}  => /*/sourceField = 'a'
        {'sourceField': ''}   => ! *: it needs a sourceField, a defaultValue or both
        {'sourceFeild': 'a'}  => ! *.sourceFeild: \"sourceField\"
    ";
    for name in ["eventType", "subject", "dataVersion"] {
        each_line(with_default, |part, expected| {
            check_part(name, part, expected);
        });
    }
    let whole = "
        {}                                => ! inputSchemaMapping.properties: it is missing
        {'inputSchemaMappingType': 'Xml'} => ! inputSchemaMapping.inputSchemaMappingType: \"Json\"
    ";
    each_line(whole, |mapping, expected| {
        check_properties(&custom(mapping), expected);
    });
}

/// A topic whose settings are all other than the default.
pub(super) fn created() -> Value {
    let mut body = read(
        "{'location': 'local', 'tags': {'a': 'b'}, 'identity': {'type': 'None'}, 'properties': {
            'inputSchema': 'CustomEventSchema', 'disableLocalAuth': true,
            'publicNetworkAccess': 'Disabled', 'inboundIpRules': [{'ipMask': '192.0.2.1'}]}}",
    );
    body["properties"]["inputSchemaMapping"] = read(MAPPING);
    body
}

#[test]
fn topics_are_patched() {
    let current = parse_topic(&created()).expect("a valid topic");
    let check_patch = |body: &str, expected: &str| {
        let show = |kind| render_topic(&entry(kind), "").expect("a topic of events");
        check(body, patch_topic(&current, &read(body)).map(show), expected);
    };
    let table = "
        {'tags': {'c': 'd'}}         => /tags = {'c': 'd'}
        {'tags': {'c': 'd'}}         => /identity/type = 'None'
        {'tags': null}               => /tags = null
        {'identity': {'type': 'x'}}  => /identity/type = 'x'
        {'identity': null}           => /identity = null
        {'location': 'elsewhere'}    => /location = 'local'
        {'inboundIpRules': []}       => ! inboundIpRules: it belongs into \"properties\"

        {'properties': {'publicNetworkAccess': 'Enabled'}} => /properties/publicNetworkAccess = 'Enabled'
        {'properties': {'publicNetworkAccess': 'Enabled'}} => /properties/disableLocalAuth = true
        {'properties': {'publicNetworkAccess': 'Enabled'}} => /properties/inboundIpRules/0/action = 'Allow'
        {'properties': {'disableLocalAuth': null}}         => /properties/disableLocalAuth = false
        {'properties': {'inboundIpRules': null}}           => /properties/inboundIpRules = null

        {'properties': {'inputSchema': 'customeventschema'}} => /properties/inputSchema = 'CustomEventSchema'
        {'properties': {'inputSchema': 'EventGridSchema'}}   => ! properties.inputSchema: it cannot be changed
        {'properties': {'inputSchemaMapping': null}}         => /properties/inputSchema = 'CustomEventSchema'
    ";
    each_line(table, check_patch);
    let other = MAPPING.replace("orderNo", "other").replace('\n', "");
    check_patch(
        &format!("{{'properties': {{'inputSchemaMapping': {other}}}}}"),
        "! properties.inputSchemaMapping: it cannot be changed",
    );
    for nothing_new in [read("{}"), created()] {
        let patched = patch_topic(&current, &nothing_new).map(meant_topic);
        assert_eq!(patched, Ok(meant_topic(current.clone())));
    }
}

#[test]
fn keys_are_named_and_shown() {
    for (body, expected) in [
        ("{'keyName': 'key1'}", Ok(KeyName::Key1)),
        ("{'KeyName': 'KEY2'}", Ok(KeyName::Key2)),
        ("{'keyName': 'key3'}", Err("keyName")),
        ("{}", Err("keyName")),
        ("{'keyNames': 'key1'}", Err("keyNames")),
        ("'key1'", Err("")),
    ] {
        let read = parse_key_name(&read(body)).map_err(|invalid| invalid.first().path.clone());
        assert_eq!(read, expected.map_err(str::to_owned), "{body}");
    }
    let keys = entry(topic("{}")).topic.keys.expect("keys");
    assert_eq!(
        json!(render_keys(&keys)),
        read("{'key1': 'one', 'key2': 'two'}")
    );
}
