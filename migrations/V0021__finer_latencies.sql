-- How long deliveries took is told apart as finely as the schedule of retries is: by the bounds in the columns'
-- names, in milliseconds, and what took longer than the last. What was counted before keeps the bound that it
-- had; of what had taken over an hour no bound was kept, and a day is how long Event Grid's deliveries live.
ALTER TABLE subscription_rollup RENAME COLUMN within_11 TO within_86400000;
ALTER TABLE subscription_rollup RENAME COLUMN within_10 TO within_3600000;
ALTER TABLE subscription_rollup RENAME COLUMN within_9 TO within_300000;
ALTER TABLE subscription_rollup RENAME COLUMN within_8 TO within_30000;
ALTER TABLE subscription_rollup RENAME COLUMN within_7 TO within_5000;
ALTER TABLE subscription_rollup RENAME COLUMN within_6 TO within_1000;
ALTER TABLE subscription_rollup RENAME COLUMN within_5 TO within_250;
ALTER TABLE subscription_rollup RENAME COLUMN within_4 TO within_100;
ALTER TABLE subscription_rollup RENAME COLUMN within_3 TO within_50;
ALTER TABLE subscription_rollup RENAME COLUMN within_2 TO within_25;
ALTER TABLE subscription_rollup RENAME COLUMN within_1 TO within_10;
ALTER TABLE subscription_rollup RENAME COLUMN within_0 TO within_5;
ALTER TABLE subscription_rollup ADD COLUMN within_500 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_2500 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_15000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_60000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_120000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_600000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_1200000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_7200000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_21600000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN within_43200000 INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription_rollup ADD COLUMN longer INTEGER NOT NULL DEFAULT 0;
