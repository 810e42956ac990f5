// Bundles the command line into dist/cli: the program, the entry files of its workers and the chunks that
// they share, with all that they use, so that the published package depends on nothing for it.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

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
await writeFile(
  join(outdir, 'THIRD-PARTY.txt'),
  await licences(output.flatMap(({ moduleIds = [] }) => moduleIds.map((id) => relative(root, id)))),
);

/** Entry files of workers; their names differ, because the bundle has no folders. */
async function workers(folder) {
  const files = await readdir(join(root, folder), { recursive: true });
  return files.filter((file) => file.endsWith('.worker.ts')).map((file) => join(folder, file));
}

/** The licences of the bundled packages ask to go with every copy. */
async function licences(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const name = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input);
    if (name) packages.add(name[0]);
  }
  const texts = [];
  for (const folder of [...packages].sort()) {
    const { name, version, license } = JSON.parse(await readFile(join(root, folder, 'package.json'), 'utf8'));
    const file = (await readdir(join(root, folder))).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? (await readFile(join(root, folder, file), 'utf8')).trim() : '';
    texts.push(`${name} ${version} (${license})\n\n${text}`);
  }
  return `The files in this folder contain parts of the following packages.\n\n${texts.join(`\n\n${'-'.repeat(72)}\n\n`)}\n`;
}
