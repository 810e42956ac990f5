// Replays a folder of traces of an independent driver and device against ours, on both engines:
//
//     npm run golden -- DIR
//
// A line for each trace and side, and at the end how many passed and failed.
import { replay, SIDES } from '../test/golden/replay.js';
import { readTrace, type Trace, traceFiles } from '../test/golden/trace.js';
import { ENGINES, loader } from '../test/support/engines.js';

let passed = 0;
let failed = 0;

const message = (error: unknown) => (error instanceof Error ? error.message : String(error));

async function run(trace: Trace): Promise<void> {
  for (const engine of ENGINES)
    for (const side of SIDES) {
      const what = `${engine} ${side}`.padEnd(18);
      try {
        await replay(trace, side, loader(engine));
        passed++;
        console.log(`ok    ${what} ${trace.name}`);
      } catch (error) {
        failed++;
        console.log(`FAIL  ${what} ${trace.name}: ${message(error)}`);
      }
    }
}

const [folder, ...more] = process.argv.slice(2);
if (folder === undefined || more.length > 0) {
  console.error('usage: npm run golden -- DIR, a folder of traces (*.json)');
  process.exit(2);
}

let files: string[] = [];
try {
  files = traceFiles(folder);
  if (files.length === 0) console.error(`${folder}: no *.json in this folder`);
} catch (error) {
  console.error(`${folder}: ${message(error)}`);
}
for (const file of files) {
  let trace: Trace;
  try {
    trace = readTrace(file);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${message(error)}`);
    continue;
  }
  await run(trace);
}
console.log(`${passed} passed, ${failed} failed`);
// A folder without traces proves nothing.
if (failed > 0 || passed === 0) process.exitCode = 1;
