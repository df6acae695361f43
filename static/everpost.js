// Comforts that the pages work without: buttons that copy, and the reader's own time on hovering.

for (const source of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy ${source.dataset.copy}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Browsers offer the clipboard over https alone; then the text is at least selected.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2_000);
  });
  source.after(button);
}

for (const moment of document.querySelectorAll("time[datetime]")) {
  const local = new Date(moment.dateTime);
  if (!Number.isNaN(local.getTime())) {
    moment.title = `${local.toLocaleString()} in your time zone`;
  }
}
