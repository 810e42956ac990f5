// Compiles assembly/ and writes src/engine/wasm/generated.ts: the bytes of the two release builds and the
// type of their exports, as the compiler declares it.
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = new URL('..', import.meta.url);
const require = createRequire(import.meta.url);
const asc = require.resolve('assemblyscript/bin/asc.js');

function compile(target) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [asc, 'assembly/index.ts', '--target', target], {
      cwd: fileURLToPath(root),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`asc --target ${target} failed (exit code ${code}):\n${output}`));
    });
  });
}

/** Turns the compiler's declaration of the exports into an interface. */
function exportsInterface(declaration) {
  const functions = [...declaration.matchAll(/^ {2}export function (\w+)(\(.*\): \w+);$/gm)];
  if (functions.length === 0)
    throw new Error('build/vring.d.ts declares no functions: has its format changed?');
  return functions.map(([, name, signature]) => `  ${name}${signature};`).join('\n');
}

await Promise.all(['release', 'shared', 'debug'].map(compile));

const base64 = async (file) => (await readFile(new URL(`build/${file}`, root))).toString('base64');
const declaration = await readFile(new URL('build/vring.d.ts', root), 'utf8');
await writeFile(
  new URL('src/engine/wasm/generated.ts', root),
  `// Written by scripts/build-wasm.mjs. Do not edit.

/** Exports of the module, as the compiler declares them. */
export interface WasmExports {
${exportsInterface(declaration)}
}

/** build/vring.wasm, for a memory that is not shared. */
export const PLAIN =
  '${await base64('vring.wasm')}';

/** build/vring.shared.wasm, for a shared memory. */
export const SHARED =
  '${await base64('vring.shared.wasm')}';
`,
);
