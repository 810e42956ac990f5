// Bundles the command line into dist/cli: the program, the entry files of its workers and the chunks that
// they share, with all that they use, so that the published package depends on nothing for it.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = join(root, 'dist/cli');

await rm(outdir, { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: {
    vring: 'src/cli/vring.ts',
    'replay-worker': 'src/cli/replay/worker.ts',
  },
  outdir,
  bundle: true,
  splitting: true,
  // Flat, because workers are found beside whichever chunk starts them.
  chunkNames: 'chunk-[hash]',
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: true,
  metafile: true,
  logLevel: 'warning',
  legalComments: 'none',
  // What linkedom draws canvases with, if it is installed.
  external: ['canvas'],
  // Some of the bundled packages are CommonJS and call require for modules of Node.
  banner: {
    js: "import { createRequire as createRequire_ } from 'node:module';\nconst require = createRequire_(import.meta.url);",
  },
});
await writeFile(join(outdir, 'THIRD-PARTY.txt'), await licences(Object.keys(metafile.inputs)));

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
