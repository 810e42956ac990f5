// Writes docs/conformance.md from test/conformance/ and the tags in the titles of the tests.
// --check only compares, and fails if the file is stale or statements are open; --allow-open lets them be.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { collectFrom, count, openStatements, render } from '../test/conformance/ledger.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGE = fileURLToPath(new URL('../docs/conformance.md', import.meta.url));

const options = process.argv.slice(2);
const unknown = options.filter((option) => option !== '--check' && option !== '--allow-open');
const check = options.includes('--check');

const ledger = collectFrom(ROOT);
const failures = unknown.map((option) => `unknown option ${option}: there are --check and --allow-open`);
failures.push(...ledger.problems);
if (failures.length === 0) {
  const page = render(ledger);
  if (!check) writeFileSync(PAGE, page);
  else if (!existsSync(PAGE) || readFileSync(PAGE, 'utf8') !== page) {
    failures.push('docs/conformance.md is stale: run npm run conformance');
  }
  const open = openStatements(ledger);
  if (check && open.length > 0 && !options.includes('--allow-open')) {
    failures.push(`${open.length} statements have neither a test nor a reason: ${open.join(', ')}`);
  }
}
if (failures.length > 0) {
  for (const failure of failures) console.error(failure);
  process.exitCode = 1;
} else {
  const { statements, shown, open, ...rest } = count(ledger);
  console.log(
    `${statements} statements: ${shown} shown, ${rest['not applicable']} not applicable, ${open} open`,
  );
}
