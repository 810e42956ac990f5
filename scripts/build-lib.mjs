// Bundles the library's entries into dist/, ready for a browser without a bundler or an import map. The
// numbers of assembly/abi/layout.ts become literals on the way, which the engines' loops need: the
// value of an imported constant is loaded and checked at each use.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

await build({
  absWorkingDir: fileURLToPath(new URL('..', import.meta.url)),
  entryPoints: ['src/index.ts', 'src/typescript.ts'],
  outdir: 'dist',
  bundle: true,
  splitting: true,
  chunkNames: 'chunk-[hash]',
  format: 'esm',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  target: 'es2022',
  minifySyntax: true,
  sourcemap: true,
  logLevel: 'warning',
});
