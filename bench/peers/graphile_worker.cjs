const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const quiet = new Logger(() => () => {});
const settings = (connectionString) => ({
  worker: {
    connectionString,
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger: quiet,
  },
});

async function fill(address, jobs) {
  const utils = await makeWorkerUtils({ connectionString: address, logger: quiet });
  await utils.migrate();
  await utils.withPgClient((client) =>
    client.query(
      `select 1 from graphile_worker.add_jobs(array(
         select json_populate_record(null::graphile_worker.job_spec, '{"identifier":"noop","payload":{}}')
         from generate_series(1, $1::int)))`,
      [jobs],
    ),
  );
  await utils.release();
}

async function drain(address, jobs) {
  let left = jobs;
  let first;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const noop = async () => {
    if (left === jobs) first = process.hrtime.bigint();
    if (--left === 0) finish(process.hrtime.bigint());
  };
  const runner = await run({ preset: settings(address), taskList: { noop } });
  const last = await finished;
  await runner.stop();
  console.log(JSON.stringify({ rate: jobs / (Number(last - first) / 1e9) }));
}

const [verb, address, jobs] = process.argv.slice(2);
({ fill, drain })[verb](address, Number(jobs)).catch((error) => {
  console.error(error);
  process.exit(1);
});
