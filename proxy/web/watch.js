// Shows a preview of the matching articles while the user types. Without scripts, the Preview button does the same.
(() => {
  const query = document.getElementById("q");
  const preview = document.getElementById("preview");
  let asked = 0, timer = 0;
  const ask = async () => {
    const mine = ++asked;
    const answer = await fetch("/watch?part=1&q=" + encodeURIComponent(query.value)).catch(() => null);
    if (answer && answer.ok && mine === asked) {
      preview.innerHTML = await answer.text();
    }
  };
  query.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 250);
  });
})();
