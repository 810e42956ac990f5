// The README's first example runs as printed and prints what it says, on the package as it is built.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('..', import.meta.url));

function firstExample(): { code: string; output: string } {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const match = /## First example\n\n```js\n([\s\S]*?)```\n\nIt prints\n\n```\n([\s\S]*?)```/.exec(readme);
  if (match === null) throw new Error('README.md has no first example with its output');
  return { code: match[1], output: match[2] };
}

describe('README', () => {
  for (const entry of ['vring', 'vring/typescript']) {
    it(`its first example prints what it says, with the entry ${entry}`, () => {
      const { code, output } = firstExample();
      expect(code).to.contain("from 'vring'");
      // Inside the package, so that its own name resolves.
      const folder = mkdtempSync(join(root, 'build', 'readme-'));
      try {
        const file = join(folder, 'example.mjs');
        writeFileSync(file, code.replace("from 'vring'", `from '${entry}'`));
        expect(execFileSync(process.execPath, [file], { encoding: 'utf8' })).to.equal(output);
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }
});
