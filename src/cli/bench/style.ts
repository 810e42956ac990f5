/** Style sheet of the HTML report. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1c1e21; --quiet: #5b616b; --line: #d9dce1; --panel: #f7f8fa;
  --wasm-0: #6d28d9; --wasm-1: #db2777; --wasm-2: #ea580c;
  --typescript-0: #1d4ed8; --typescript-1: #0891b2; --typescript-2: #15803d;
  --other: #6b7280; --better: #15803d; --worse: #b91c1c; --faster: #7c9ef0; --slower: #e2a36f; --target: #dc2626;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15171a; --text: #e6e8eb; --quiet: #a0a7b1; --line: #363b43; --panel: #1c1f24;
    --wasm-0: #b79bff; --wasm-1: #f472b6; --wasm-2: #fb923c;
    --typescript-0: #7ea6ff; --typescript-1: #38d0e8; --typescript-2: #6ee08a;
    --other: #a3abb7; --better: #6ee08a; --worse: #f87171; --faster: #4966b3; --slower: #9a6233; --target: #f87171;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1480px; margin: 0 auto; padding: 1.25rem; }
h1 { font-size: 1.7rem; margin: 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .3rem; }
p { margin: .3rem 0; max-width: 75ch; }
.about { font-size: 1.05rem; }
.contents { color: var(--quiet); line-height: 1.7; margin-bottom: 1.6rem; }
.contents b { color: var(--text); }
section + section { margin-top: 3.5rem; border-top: 2px solid var(--line); padding-top: 2rem; }
tr.better td:last-child { color: var(--better); font-weight: 600; }
tr.worse td:last-child { color: var(--worse); font-weight: 600; }
.machine { color: var(--quiet); }
.facts { padding-left: 1.1rem; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; margin: .7rem 0; padding: 0; }
.legend li { display: flex; align-items: center; gap: .45rem; white-space: nowrap; }
.legend svg { width: 30px; height: 10px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 1rem; margin-top: .8rem; }
figure { margin: 0; padding: .8rem; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
figcaption { margin-bottom: .4rem; line-height: 1.35; }
figure > svg { display: block; width: 100%; max-width: 620px; height: auto; margin: 0 auto; overflow: visible; }
.scroll { overflow-x: auto; margin: .8rem 0 1.4rem; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
tbody tr:last-child td { border-bottom: 0; }
th { background: var(--panel); font-weight: 600; }
td.n { text-align: right; }
`;
