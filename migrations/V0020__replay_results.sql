-- What has a replay job sent again, and did it arrive?
CREATE INDEX resubmission_replay_job ON resubmission (replay_job_id) WHERE replay_job_id IS NOT NULL;
