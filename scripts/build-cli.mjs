// Bundles the command line into dist/cli: the program, the entry files of its workers and the chunks that
// they share, with all that they use, so that the published package depends on nothing for it.
import { readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { writeThirdParty } from './third-party.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = join(root, 'dist/cli');

const entries = ['src/cli/vring.ts', ...(await workers('src/cli')), ...(await workers('bench'))];
const bundle = await rolldown({
  cwd: root,
  input: Object.fromEntries(entries.map((entry) => [basename(entry, '.ts'), entry])),
  platform: 'node',
  // What linkedom draws canvases with, if it is installed.
  external: ['canvas'],
  // As in the library's bundle: what is measured here has to be what is shipped there.
  optimization: { inlineConst: { mode: 'all', pass: 3 } },
});
const { output } = await bundle.write({
  dir: outdir,
  format: 'esm',
  // Flat, because workers are found beside whichever chunk starts them.
  entryFileNames: '[name].js',
  chunkFileNames: 'chunk-[hash].js',
  minify: 'dce-only',
  sourcemap: true,
});
await bundle.close();
// Removed afterwards, not before: somebody may be running what is there.
const written = new Set(output.map(({ fileName }) => fileName));
for (const file of await readdir(outdir)) if (!written.has(file)) await rm(join(outdir, file));
await writeThirdParty(output, outdir);

/** Entry files of workers; their names differ, because the bundle has no folders. */
async function workers(folder) {
  const files = await readdir(join(root, folder), { recursive: true });
  return files.filter((file) => file.endsWith('.worker.ts')).map((file) => join(folder, file));
}
