// Bundles the library's entries into dist/, ready for a browser without a bundler or an import map. The
// bundler must keep top-level `const` as it is: V8 then folds the constants that the loops of the engines
// are full of, where a `var` would be loaded and checked at each use (measured: ×1.9 on a whole cycle).
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { writeThirdParty } from './third-party.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const bundle = await rolldown({
  cwd: root,
  input: {
    index: 'src/index.ts',
    typescript: 'src/typescript.ts',
    'vhost-user': 'src/vhost-user/index.ts',
  },
  platform: 'neutral',
  // Only the entry for other processes' memory has any.
  external: /^node:/,
  resolve: { mainFields: ['module', 'main'] },
  optimization: { inlineConst: { mode: 'all', pass: 3 } },
});
const { output } = await bundle.write({
  dir: 'dist',
  format: 'esm',
  entryFileNames: '[name].js',
  chunkFileNames: 'chunk-[hash].js',
  minify: 'dce-only',
  sourcemap: true,
});
await bundle.close();
await writeThirdParty(output, `${root}dist`);
