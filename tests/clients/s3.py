"""A server of S3, with one bucket."""

import boto3
import pytest
import requests
from moto.server import ThreadedMotoServer

BUCKET = "dead"
KEY_ID, SECRET = "AKIDEXAMPLE", "a-secret-that-nobody-sees"


@pytest.fixture
def s3():
    """Its client, and its URL."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    requests.post(f"{url}/moto-api/reset", timeout=30)  # what servers before it held
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
    )
    client.create_bucket(Bucket=BUCKET)
    yield client, url
    server.stop()


def names(client, bucket=BUCKET):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [each["Key"] for page in pages for each in page.get("Contents", [])]
