import { readdirSync, readFileSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import ts from 'typescript';
import { chapters } from './chapters.js';
import type { Chapter, Statement } from './statement.js';

/** A test that shows a statement. */
export interface Evidence {
  /** Path from the root of the repository, with forward slashes. */
  readonly file: string;
  /** Title of the test without its tags. */
  readonly title: string;
}

/** The tests for each statement id, and everything that is wrong with the tags. */
export interface Ledger {
  readonly chapters: readonly Chapter[];
  readonly evidence: ReadonlyMap<string, readonly Evidence[]>;
  readonly problems: readonly string[];
}

export type Verdict = 'shown' | 'not applicable' | 'open';

/** A tag is the id of a statement in brackets. Other words in brackets are no tags. */
const TAG = /\[([a-z]+-(?:driver|device)-[a-z0-9-]+)\]/g;

const tagsOf = (title: string): string[] => [...title.matchAll(TAG)].map((match) => match[1]);

const withoutTags = (title: string): string => title.replace(TAG, '').replace(/\s+/g, ' ').trim();

/** Functions whose first argument is the title of a test. */
const TESTS = new Set(['it', 'it.only', 'specify', 'specify.only']);
/** Functions whose first argument is a title, but that run nothing. */
const NO_TESTS = new Set([
  'describe',
  'describe.only',
  'describe.skip',
  'context',
  'context.only',
  'context.skip',
  'it.skip',
  'xit',
  'specify.skip',
]);

/** The text of a title; what is only known at run time shows as `…`. */
function textOf(node: ts.Expression): string {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isTemplateExpression(node)) {
    return node.head.text + node.templateSpans.map((span) => `…${span.literal.text}`).join('');
  }
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    return textOf(node.left) + textOf(node.right);
  }
  return ts.isParenthesizedExpression(node) ? textOf(node.expression) : '…';
}

/** Every tagged test of one spec file, and the tags where no test runs. */
export function scan(
  file: string,
  source: string,
): { found: (Evidence & { tags: string[] })[]; problems: string[] } {
  const found: (Evidence & { tags: string[] })[] = [];
  const problems: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && node.arguments.length > 0) {
      const callee = node.expression.getText();
      const title = TESTS.has(callee) || NO_TESTS.has(callee) ? textOf(node.arguments[0]) : '';
      const tags = tagsOf(title);
      if (tags.length > 0 && TESTS.has(callee) && node.arguments.length > 1) {
        found.push({ file, title: withoutTags(title), tags });
      } else if (tags.length > 0) {
        problems.push(
          `${file}: ${callee} '${title}' runs no test: put its tags into the title of one that does`,
        );
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true));
  return { found, problems };
}

/** Spec files under `root`/test, sorted. */
export function specFiles(root: string): string[] {
  return readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.spec.ts'))
    .map((name) => posix.join('test', ...name.split(sep)))
    .sort();
}

/** Brings statements and tests together. */
export function collect(sources: ReadonlyMap<string, string>, all: readonly Chapter[] = chapters): Ledger {
  const problems: string[] = [];
  const known = new Map<string, Statement>();
  for (const { statements } of all.flatMap(({ sections }) => sections)) {
    for (const statement of statements) {
      if (tagsOf(`[${statement.id}]`).length === 0)
        problems.push(`statement id '${statement.id}' is not a tag`);
      if (!statement.id.includes(`-${statement.binds}-`)) {
        problems.push(`statement ${statement.id} binds the ${statement.binds}: say so in its id`);
      }
      if (known.has(statement.id)) problems.push(`statement id '${statement.id}' is used twice`);
      known.set(statement.id, statement);
    }
  }
  const evidence = new Map<string, Evidence[]>();
  for (const [file, source] of sources) {
    const scanned = scan(file, source);
    problems.push(...scanned.problems);
    for (const { tags, title } of scanned.found) {
      for (const tag of tags) {
        const statement = known.get(tag);
        if (statement === undefined) {
          problems.push(`${file}: '${title}' has the unknown tag [${tag}]: use an id of test/conformance/`);
        } else if (statement.notApplicable !== undefined) {
          problems.push(
            `${file}: '${title}' shows [${tag}], which is listed as not applicable: remove the reason`,
          );
        } else {
          evidence.set(tag, [...(evidence.get(tag) ?? []), { file, title }]);
        }
      }
    }
  }
  return { chapters: all, evidence, problems };
}

/** The ledger of the repository at `root`. */
export function collectFrom(root: string): Ledger {
  return collect(new Map(specFiles(root).map((file) => [file, readFileSync(join(root, file), 'utf8')])));
}

export function verdict(ledger: Ledger, statement: Statement): Verdict {
  if (statement.notApplicable !== undefined) return 'not applicable';
  return ledger.evidence.has(statement.id) ? 'shown' : 'open';
}

/** The ids that neither a test nor a reason settles. */
export function openStatements(ledger: Ledger): string[] {
  return ledger.chapters
    .flatMap(({ sections }) => sections.flatMap(({ statements }) => statements))
    .filter((statement) => verdict(ledger, statement) === 'open')
    .map(({ id }) => id);
}

/** How many statements there are, and how many of each verdict. */
export function count(ledger: Ledger, part: readonly Chapter[] = ledger.chapters) {
  const counts = { statements: 0, shown: 0, 'not applicable': 0, open: 0 };
  for (const { statements } of part.flatMap(({ sections }) => sections)) {
    for (const statement of statements) {
      counts.statements++;
      counts[verdict(ledger, statement)]++;
    }
  }
  return counts;
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

const row = (...cells: (string | number)[]): string => `| ${cells.map((c) => cell(String(c))).join(' | ')} |`;

function settledBy(ledger: Ledger, statement: Statement): string {
  if (statement.notApplicable !== undefined) return `Not applicable. ${statement.notApplicable}`;
  const tests = ledger.evidence.get(statement.id) ?? [];
  if (tests.length === 0) return '**Open**';
  return tests
    .map(({ file, title }) => `${title} ([${posix.relative('test', file)}](../${file}))`)
    .join('<br>');
}

/** The text of docs/conformance.md. */
export function render(ledger: Ledger): string {
  const total = count(ledger);
  const lines = [
    '# Conformance to virtio 1.4',
    '',
    '<!-- Made by `npm run conformance` from test/conformance/ and the tags in the titles of the tests. Do not edit. -->',
    '',
    'Every normative statement of the specification about what vring implements, in our words, and the',
    'tests that show it. Section numbers are those of virtio 1.4. A test carries the id of what it shows in',
    'its title; this page is made from these tags, and a test checks that it is up to date.',
    '',
    row('Chapter', 'Statements', 'Shown', 'Not applicable', 'Open'),
    row('---', '---:', '---:', '---:', '---:'),
  ];
  for (const chapter of ledger.chapters) {
    const part = count(ledger, [chapter]);
    lines.push(row(chapter.title, part.statements, part.shown, part['not applicable'], part.open));
  }
  lines.push(row('**All**', total.statements, total.shown, total['not applicable'], total.open));
  for (const chapter of ledger.chapters) {
    lines.push('', `## ${chapter.title}`);
    for (const section of chapter.sections) {
      lines.push('', `### ${section.number} ${section.title}`, '');
      lines.push(row('Statement', 'Binds', 'Level', 'In short', 'Shown by'), row(...Array(5).fill('---')));
      for (const statement of section.statements) {
        const { id, binds, level, text } = statement;
        lines.push(row(`\`${id}\``, binds, level, text, settledBy(ledger, statement)));
      }
    }
  }
  return `${lines.join('\n')}\n`;
}
