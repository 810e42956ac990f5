// `npm run dev`: compiles the engine when assembly/ changes and runs the tests when anything does.
// Arguments go to mocha: `npm run dev -- test/lockstep.spec.ts`.
import { spawn } from 'node:child_process';
import { watch } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);
const mocha = require.resolve('mocha/bin/mocha.js');

let running = false;
let compile = true;
let again = false;
let timer;

const run = (...args) =>
  new Promise((resolve) => {
    spawn(process.execPath, args, { cwd: root, stdio: 'inherit' }).on('close', resolve);
  });

async function round() {
  if (running) {
    again = true;
    return;
  }
  running = true;
  do {
    again = false;
    const wasm = compile;
    compile = false;
    const failed = wasm ? await run('scripts/build-wasm.mjs') : 0;
    if (failed) compile = true;
    else await run(mocha, ...process.argv.slice(2));
    console.log('\nWaiting for a change in assembly/, src/ or test/ …');
  } while (again);
  running = false;
}

for (const folder of ['assembly', 'src', 'test']) {
  watch(`${root}/${folder}`, { recursive: true }, (_event, file) => {
    if (file?.endsWith('generated.ts')) return;
    if (folder === 'assembly') compile = true;
    clearTimeout(timer);
    // Editors write a file in several steps.
    timer = setTimeout(round, 100);
  });
}
round();
